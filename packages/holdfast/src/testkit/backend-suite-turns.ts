/** A store with a queue of its own, in which every contender has a place: `acquireInTurn`. */
import { ok, strictEqual } from 'node:assert/strict'
import type { AcquireResult, Backend, Grant } from '../core/backend.ts'
import { createLocksWith } from '../lock/lock.ts'
import {
  acquired,
  type Check,
  granted,
  isTaken,
  LONG_MS,
  request,
  type Store,
} from './backend-harness.ts'

const CONTENDERS = 6
const MANY = 30
const WAIT_MS = 45_000
const NO_TURNS = 'the backend has no acquireInTurn'

export function testTurns(check: Check): void {
  testOrder(check)
  testLeaving(check)
  testManyTurns(check)
}

interface Standing {
  readonly result: Promise<AcquireResult>
  readonly isGranted: () => boolean
  readonly owner: string
  leave(reason: unknown): void
}

/** Resolves when it stands: when it was told that another owner has the name. */
async function stand(
  store: Store,
  backend: Backend,
  lockName: string,
  ttlMs: number = LONG_MS,
): Promise<Standing> {
  const asked = request(lockName, { waits: true, ttlMs })
  const controller = new AbortController()
  let isGranted = false
  let refused = (): void => undefined
  const isStanding = new Promise<void>((resolve) => {
    refused = resolve
  })
  const result =
    backend.acquireInTurn?.(asked, controller.signal, () => refused()) ??
    Promise.reject(new Error(NO_TURNS))
  const granted = (): void => {
    isGranted = true
    refused()
  }
  result.then(granted, () => refused())
  await store.settled(isStanding, 'a place in the queue')
  const leave = (reason: unknown): void => controller.abort(reason)
  return { result, isGranted: () => isGranted, owner: asked.owner, leave }
}

async function grantOf(store: Store, { result }: Standing): Promise<Grant> {
  return granted(await store.settled(result, 'a turn'))
}

function testOrder(check: Check): void {
  // Whoever is nearer to the store wins each time, and one process waits for ever.
  check(
    'places of all processes come to their turn in the order in which they were taken',
    async (store, skip) => {
      const { ours, theirs, lockName } = store
      if (!ours.acquireInTurn) return skip(NO_TURNS)
      let grant = await acquired(ours, lockName)
      const line: Standing[] = []
      for (let index = 0; index < CONTENDERS; index++) {
        line.push(await stand(store, index % 2 === 0 ? theirs : ours, lockName))
      }
      for (const [index, next] of line.entries()) {
        strictEqual(line.filter((one) => one.isGranted()).length, index)
        const side = index % 2 === 0 ? theirs : ours
        const before = grant
        await ours.release(before, 0)
        grant = await grantOf(store, next)
        ok(grant.fencingToken > before.fencingToken)
        strictEqual((await side.inspect(lockName))?.fencingToken, grant.fencingToken)
      }
      await theirs.release(grant, 0)
      strictEqual(await isTaken(ours, lockName), false)
    },
  )

  // A program that only tries, a thousand times a second, would get the name before all who wait.
  check('whoever only tries does not pass those who have a place', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.acquireInTurn) return skip(NO_TURNS)
    const grant = await acquired(ours, lockName)
    const next = await stand(store, theirs, lockName)
    const releasing = ours.release(grant, 0)
    for (let tries = 0; tries < 20; tries++) {
      strictEqual((await ours.tryAcquire(request(lockName))).kind, 'held')
    }
    await releasing
    await theirs.release(await grantOf(store, next), 0)
  })

  check('a free name is granted to whoever asks for a place', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.acquireInTurn) return skip(NO_TURNS)
    for (const side of [ours, theirs]) {
      await side.release(await grantOf(store, await stand(store, side, lockName)), 0)
    }
  })
}

function testLeaving(check: Check): void {
  // A call with a short wait gave up, and everybody behind it waits for nobody.
  check('one that leaves gives up its place, and is never granted', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.acquireInTurn) return skip(NO_TURNS)
    const grant = await acquired(ours, lockName)
    const gone = await stand(store, theirs, lockName)
    const next = await stand(store, ours, lockName)
    const reason = new Error('left')
    gone.leave(reason)
    const outcome = await store.settled(
      gone.result.then(
        () => null,
        (error: unknown) => error,
      ),
      'an abort',
    )
    strictEqual(outcome, reason)
    await theirs.cancel(lockName, gone.owner)
    await ours.release(grant, 0)
    await ours.release(await grantOf(store, next), 0)
    strictEqual(await isTaken(theirs, lockName), false)
  })

  // The machine of a holder lost power while others waited.
  check('the next has its turn when a holder’s entry ends by itself', async (store, skip) => {
    const { ours, theirs, lockName, ttlMs } = store
    if (!ours.acquireInTurn) return skip(NO_TURNS)
    const crashed = await acquired(ours, lockName, { ttlMs })
    const next = await stand(store, theirs, lockName)
    const grant = await grantOf(store, next)
    ok(grant.fencingToken > crashed.fencingToken)
    await theirs.release(grant, 0)
  })

  // A contender may wait for longer than an entry lives.
  check('a place outlives its TTL while its contender waits', async (store, skip) => {
    const { ours, theirs, lockName, ttlMs, lapse } = store
    if (!ours.acquireInTurn) return skip(NO_TURNS)
    const holder = await acquired(ours, lockName)
    const first = await stand(store, theirs, lockName, ttlMs)
    const later = await stand(store, ours, lockName)
    await lapse(3 * ttlMs)
    await ours.release(holder, 0)
    const grant = await grantOf(store, first)
    strictEqual(later.isGranted(), false)
    await theirs.release(grant, 0)
    await ours.release(await grantOf(store, later), 0)
  })

  // An operator takes the lock while others wait: they must neither hold beside the operator nor be lost.
  check('a revoke passes those who wait, and they wait on', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.acquireInTurn) return skip(NO_TURNS)
    const old = await acquired(ours, lockName)
    const waiting = [await stand(store, theirs, lockName), await stand(store, ours, lockName)]
    const { fencingToken } = old
    const taken = await theirs.revoke(request(lockName), { fencingToken, reason: 'suite' })
    if (!taken) throw new Error('the holder seen was the holder')
    ok(taken.fencingToken > fencingToken)
    strictEqual((await ours.inspect(lockName))?.fencingToken, taken.fencingToken)
    await store.lapse(300)
    strictEqual(waiting.filter((one) => one.isGranted()).length, 0)
    strictEqual(await theirs.release(taken, 0), 'released')
    const first = await store.settled(Promise.race(waiting.map(({ result }) => result)), 'a turn')
    const grant = granted(first)
    ok(grant.fencingToken > taken.fencingToken)
    await ours.release(grant, 0)
    for (const { result } of waiting) {
      const next = granted(await store.settled(result, 'a turn'))
      if (next.owner !== grant.owner) await ours.release(next, 0)
    }
  })
}

function testManyTurns(check: Check): void {
  // Each section waits for its turn; one overlap loses an update.
  check(
    'using: many contenders of two processes have their turns, one at a time',
    async (store, skip) => {
      const { seams, ours, theirs, lockName, lapse } = store
      if (!ours.acquireInTurn) return skip(NO_TURNS)
      const sides = [createLocksWith(seams, ours), createLocksWith(seams, theirs)]
      const tokens: bigint[] = []
      let inside = 0
      let overlaps = 0
      const work = async (index: number): Promise<void> => {
        const locks = sides[index % 2]
        await locks?.using(lockName, { waitMs: WAIT_MS }, async ({ fencingToken }) => {
          inside += 1
          if (inside > 1) overlaps += 1
          tokens.push(fencingToken)
          await lapse(1)
          inside -= 1
        })
      }
      const all = Promise.all(Array.from({ length: MANY }, (_, index) => work(index)))
      await store.settled(all, 'turns')
      strictEqual(overlaps, 0)
      strictEqual(tokens.length, MANY)
      for (const [index, token] of tokens.entries()) ok(token > (tokens[index - 1] ?? 0n))
    },
  )
}
