/** Wake-ups: hints that asking again is worth while. Losing one costs a poll, never more. */
import { strictEqual } from 'node:assert/strict'
import type { Backend, Grant } from '../core/backend.ts'
import { acquired, type Check, request, type Store } from './backend-harness.ts'

/** Time for a store to take note of a sleeper. */
const HEARD_MS = 250
/** A hint may be lost, or come for nothing, now and then; one of so many must be right. */
const ROUNDS = 5
const WOKEN_MS = 5000

export function testWaking(check: Check): void {
  // Without a push the next contender starts up to a poll after the lock was free.
  check('a contender that waits is woken by a release', (store, skip) =>
    testWoken(store, skip, (holder, grant) => holder.release(grant, 0)),
  )

  check('a contender that waits is woken by a cancel', (store, skip) =>
    testWoken(store, skip, (holder, grant) => holder.cancel(grant.lockName, grant.owner)),
  )

  // A contender that gave up must not stay for ever as a promise, a listener or a subscription.
  check('a wake-up settles when its signal aborts', async (store, skip) => {
    const { ours, lockName, lapse } = store
    if (!ours.wakeUp) return skip(reasonOf(ours))
    await acquired(ours, lockName)
    const before = AbortSignal.abort(new Error('left before'))
    await store.settled(settledWhen(ours, lockName, before), 'a wake-up that was aborted before')
    const controller = new AbortController()
    const sleepers = Array.from({ length: 10 }, () =>
      settledWhen(ours, lockName, controller.signal),
    )
    await lapse(20)
    controller.abort(new Error('left'))
    await store.settled(Promise.all(sleepers), 'wake-ups that were aborted')
  })

  // The name was released between the refusal and the wait: nobody would ever tell.
  check('a wake-up of a free name does not keep a contender from asking', async (store, skip) => {
    const { ours, lockName, lapse } = store
    if (!ours.wakeUp) return skip(reasonOf(ours))
    const controller = new AbortController()
    const sleeper = settledWhen(ours, lockName, controller.signal)
    await lapse(20)
    strictEqual((await ours.tryAcquire(request(lockName))).kind, 'granted')
    controller.abort(new Error('left'))
    await store.settled(sleeper, 'a wake-up of a free name')
  })
}

async function testWoken(
  store: Store,
  skip: (reason: string) => void,
  end: (holder: Backend, grant: Grant) => Promise<unknown>,
): Promise<void> {
  const { ours, theirs, lockName, lapse } = store
  if (!ours.wakeUp || ours.capabilities.wakeUp === 'poll') return skip(reasonOf(ours))
  for (let round = 0; round < ROUNDS; round++) {
    const name = `${lockName}:${round}`
    const grant = await acquired(theirs, name)
    strictEqual((await ours.tryAcquire(request(name, { waits: true }))).kind, 'held')
    const controller = new AbortController()
    let isWoken = false
    const sleeper = settledWhen(ours, name, controller.signal).then(() => {
      isWoken = true
    })
    await lapse(HEARD_MS)
    const isTooEarly = isWoken
    await end(theirs, grant)
    for (let waitedMs = 0; waitedMs < WOKEN_MS && !isWoken; waitedMs += 10) await lapse(10)
    if (isWoken && !isTooEarly) return
    controller.abort(new Error('round over'))
    await sleeper
  }
  throw new Error(`${ROUNDS} times nobody was woken by the end of a held name, or too early`)
}

async function settledWhen(backend: Backend, lockName: string, signal: AbortSignal): Promise<void> {
  // Resolving and rejecting are both allowed on abort.
  await backend.wakeUp?.(lockName, signal).catch((error: unknown) => {
    if (!signal.aborted) throw error
  })
}

function reasonOf(backend: Backend): string {
  return `capabilities.wakeUp is '${backend.capabilities.wakeUp}'`
}
