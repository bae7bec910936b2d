/** The queue of a store that claims one: contenders of all processes in the order in which they came. */
import { ok, strictEqual } from 'node:assert/strict'
import type { AcquireResult, Backend, Grant } from '../core/backend.ts'
import { randomOwner } from '../core/owner.ts'
import { createLocksWith } from '../lock/lock.ts'
import { acquired, type Check, granted, PATIENCE_MS, request } from './backend-harness.ts'

const CONTENDERS = 6
const NO_QUEUE = "capabilities.order is 'queue-per-process'"
const HAS_TURNS = 'it has acquireInTurn, and trying leaves no place'

export function testQueue(check: Check): void {
  testOrder(check)
  testLeaving(check)
}

/** Why those who try have no place in a queue; null: they have. */
function whyNoPlaces(backend: Backend): string | null {
  if (backend.capabilities.order !== 'queue') return NO_QUEUE
  return backend.acquireInTurn ? HAS_TURNS : null
}

/** Asks as a contender of its own that will ask again. */
function contender(
  backend: Backend,
  lockName: string,
): { waiter: string; ask: () => Promise<AcquireResult> } {
  const waiter = randomOwner()
  const ask = () => backend.tryAcquire(request(lockName, { waits: true, waiter }))
  return { waiter, ask }
}

function testOrder(check: Check): void {
  // Whoever is nearer to the processor wins each time, and one process waits for ever.
  check(
    'contenders of all processes are granted in the order in which they came',
    async (store, skip) => {
      const { ours, theirs, lockName } = store
      const reason = whyNoPlaces(ours)
      if (reason !== null) return skip(reason)
      let grant = await acquired(ours, lockName)
      const line = Array.from({ length: CONTENDERS }, (_, index) =>
        contender(index % 2 === 0 ? theirs : ours, lockName),
      )
      for (const { ask } of line) strictEqual((await ask()).kind, 'held')
      for (const [index, first] of line.entries()) {
        await ours.release(grant, 0)
        for (const later of line.slice(index + 1).reverse()) {
          strictEqual((await later.ask()).kind, 'held', 'it passed one that came before')
        }
        grant = granted(await first.ask())
      }
      await ours.release(grant, 0)
      await acquired(theirs, lockName)
    },
  )

  // A program that only tries, a thousand times a second, would get the name before all who wait.
  check('whoever does not wait does not pass those who do', async (store, skip) => {
    const { ours, theirs, lockName } = store
    const reason = whyNoPlaces(ours)
    if (reason !== null) return skip(reason)
    const grant = await acquired(ours, lockName)
    const { ask } = contender(theirs, lockName)
    strictEqual((await ask()).kind, 'held')
    await ours.release(grant, 0)
    strictEqual((await ours.tryAcquire(request(lockName))).kind, 'held')
    granted(await ask())
  })

  // Asked again by polling, a contender that moved to the end each time would never be first.
  check('asking again keeps the place', async (store, skip) => {
    const { ours, theirs, lockName, lapse, nowMs } = store
    const reason = whyNoPlaces(ours)
    if (reason !== null) return skip(reason)
    const grant = await acquired(ours, lockName)
    const [first, second] = [contender(theirs, lockName), contender(ours, lockName)]
    const untilMs = nowMs() + 4000
    while (nowMs() < untilMs) {
      for (const { ask } of [first, second]) strictEqual((await ask()).kind, 'held')
      await lapse(250)
    }
    await ours.release(grant, 0)
    strictEqual((await second.ask()).kind, 'held')
    granted(await first.ask())
  })
}

function testLeaving(check: Check): void {
  // The first in the queue was stopped, or its program lost interest: all behind it wait for nobody.
  check(
    'one that asks no more is passed over after a while, and not before it could ask',
    async (store, skip) => {
      const { ours, theirs, lockName, lapse, nowMs } = store
      const reason = whyNoPlaces(ours)
      if (reason !== null) return skip(reason)
      const grant = await acquired(ours, lockName)
      const [silent, next] = [contender(theirs, lockName), contender(ours, lockName)]
      const askedAtMs = nowMs()
      for (const { ask } of [silent, next]) strictEqual((await ask()).kind, 'held')
      await ours.release(grant, 0)
      for (;;) {
        const result = await next.ask()
        if (result.kind === 'granted') break
        ok(nowMs() < askedAtMs + PATIENCE_MS, `still waited for after ${PATIENCE_MS} ms`)
        await lapse(50)
      }
      ok(nowMs() - askedAtMs > 1250, 'it was passed over before its next ask was due')
    },
  )

  check('one that stops waiting is passed over at once', async (store, skip) => {
    const { ours, theirs, lockName } = store
    const reason = whyNoPlaces(ours)
    if (reason !== null) return skip(reason)
    if (!ours.stopWaiting) return skip('the backend has no stopWaiting')
    const grant = await acquired(ours, lockName)
    const [gone, next] = [contender(theirs, lockName), contender(ours, lockName)]
    for (const { ask } of [gone, next]) strictEqual((await ask()).kind, 'held')
    await theirs.stopWaiting?.(lockName, gone.waiter)
    await theirs.stopWaiting?.(lockName, gone.waiter)
    await ours.release(grant, 0)
    granted(await next.ask())
  })

  // A call with a short wait gave up, and the name stayed closed to everybody for seconds.
  check('a wait that ended keeps nobody from the name', async (store, skip) => {
    const { seams, ours, theirs, lockName, settled } = store
    if (ours.capabilities.order !== 'queue') return skip(NO_QUEUE)
    const grant: Grant = await acquired(ours, lockName)
    const locks = createLocksWith(seams, theirs)
    // What a connection or a session takes at first is no part of the wait.
    strictEqual(await settled(locks.tryAcquire(lockName), 'an answer'), null)
    const waiting = locks.acquire(lockName, { waitMs: 200 }).then(
      () => 'granted',
      (error: { code: string }) => error.code,
    )
    strictEqual(await settled(waiting, 'a wait of 200 ms'), 'LOCK_HELD')
    await settled(locks.close(), 'the close')
    await ours.release(grant, 0)
    await acquired(ours, lockName)
  })
}
