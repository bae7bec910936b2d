/** Hand-over: a release and a grant in one step, of which either both happen or neither. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { AcquireRequest, Backend, Grant, HandOverResult } from '../core/backend.ts'
import { randomOwner } from '../core/owner.ts'
import {
  acquired,
  type Check,
  isRefused,
  isTaken,
  LONG_MS,
  lapsed,
  PATIENCE_MS,
  request,
  untilGranted,
} from './backend-harness.ts'

/** A contender that waits polls at least this often, and so leaves its mark again. */
const ASKS_AGAIN_MS = 1250
const MISSING = 'the backend has no handOver'

export function testHandOver(check: Check): void {
  testPassing(check)
  testMarks(check)
  testWaiters(check)
  testNotPassing(check)
}

function testPassing(check: Check): void {
  check(
    'a hand-over makes the next contender the holder, with a larger token',
    async (store, skip) => {
      const { ours, theirs, lockName } = store
      if (!ours.handOver) return skip(MISSING)
      const grant = await acquired(ours, lockName)
      const holder = { host: 'next', pid: 7, label: 'the next one' }
      const next = request(lockName, { holder, ttlMs: LONG_MS / 2 })
      const result = handedOver(await handOver(ours, grant, next, false))
      strictEqual(result.wanted, false)
      const passed = result.grant
      strictEqual(passed.owner, next.owner)
      strictEqual(passed.lockName, lockName)
      strictEqual(passed.source, grant.source)
      ok(passed.fencingToken > grant.fencingToken)
      const seen = await theirs.inspect(lockName)
      strictEqual(seen?.fencingToken, passed.fencingToken)
      deepStrictEqual({ ...seen?.holder }, holder)
      ok((seen?.remainingMs ?? 0) <= LONG_MS / 2 + 2, 'the life is the next one’s own')
      strictEqual((await ours.renew(passed, LONG_MS)).kind, 'renewed')
      strictEqual(await ours.release(passed, 0), 'released')
    },
  )

  // A client sends a request that had no answer once more by itself.
  check('a hand-over that arrives twice is one hand-over', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.handOver) return skip(MISSING)
    const grant = await acquired(ours, lockName)
    const next = request(lockName)
    const first = handedOver(await handOver(ours, grant, next, true)).grant
    const again = handedOver(await handOver(ours, grant, next, true)).grant
    strictEqual(again.fencingToken, first.fencingToken)
    strictEqual(again.owner, next.owner)
    strictEqual((await theirs.inspect(lockName))?.fencingToken, first.fencingToken)
    strictEqual(await ours.release(first, 0), 'released')
    deepStrictEqual(await handOver(ours, grant, next, true), { kind: 'not-held' })
  })

  // The old holder's last renewal and a second release are still on their way.
  check('after a hand-over the old grant is over', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.handOver) return skip(MISSING)
    const grant = await acquired(ours, lockName)
    const next = request(lockName)
    const passed = handedOver(await handOver(ours, grant, next, true)).grant
    deepStrictEqual(await ours.renew(grant, LONG_MS), { kind: 'lost', reason: 'superseded' })
    strictEqual(await ours.release(grant, 0), 'not-held')
    const again = await handOver(ours, grant, request(lockName), true)
    deepStrictEqual(again, { kind: 'not-held' })
    strictEqual((await theirs.inspect(lockName))?.fencingToken, passed.fencingToken)
    strictEqual(await ours.release(passed, 0), 'released')
  })

  // A revoker who is given the next holder's lock delay to work in is not alone at its end; one who
  // is held to the last holder's has no time at all.
  check('a hand-over brings the next one’s lock delay, not the last one’s', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.handOver) return skip(MISSING)
    const lockDelayMs = LONG_MS / 2
    const revoked = async (name: string, last: number, next: number): Promise<number> => {
      const grant = await acquired(ours, name, { lockDelayMs: last })
      const asked = request(name, { lockDelayMs: next })
      const { fencingToken } = handedOver(await handOver(ours, grant, asked, true)).grant
      const taken = await theirs.revoke(request(name), { fencingToken, reason: 'suite' })
      return taken?.ttlMs ?? 0
    }
    const withDelayMs = await revoked(`${lockName}:with`, 0, lockDelayMs)
    ok(withDelayMs > 0 && withDelayMs <= lockDelayMs + store.roundingMs, `given ${withDelayMs} ms`)
    const withoutMs = await revoked(`${lockName}:without`, lockDelayMs, 0)
    ok(withoutMs > lockDelayMs, `given ${withoutMs} ms`)
  })
}

function testMarks(check: Check): void {
  // A process whose contenders hand the lock to each other for ever starves all other processes.
  check(
    'a hand-over tells whether another process waits, and can then free',
    async (store, skip) => {
      const { ours, theirs, lockName } = store
      if (!ours.handOver) return skip(MISSING)
      let grant = await acquired(ours, lockName)
      strictEqual((await theirs.tryAcquire(request(lockName))).kind, 'held')
      const alone = handedOver(await handOver(ours, grant, request(lockName), false))
      strictEqual(alone.wanted, false)
      const waiting = { waits: true, waiter: randomOwner() }
      strictEqual((await theirs.tryAcquire(request(lockName, waiting))).kind, 'held')
      const kept = handedOver(await handOver(ours, alone.grant, request(lockName), true))
      strictEqual(kept.wanted, true)
      grant = kept.grant
      strictEqual((await theirs.tryAcquire(request(lockName, waiting))).kind, 'held')
      const next = request(lockName)
      deepStrictEqual(await handOver(ours, grant, next, false), { kind: 'freed' })
      strictEqual(await ours.inspect(lockName), null)
      strictEqual(await ours.release(grant, 0), 'not-held')
      // A store with a queue grants it to whoever waits, and to nobody else.
      await acquired(theirs, lockName, waiting)
    },
  )
}

function testWaiters(check: Check): void {
  // A server and a library in it made locks of their own on one backend: taken for one process, the
  // first of them keeps the lock among its own contenders, and the other starves.
  check('a hand-over tells of other waiters on its own backend too', async (store, skip) => {
    const { ours, lockName } = store
    if (!ours.handOver) return skip(MISSING)
    const [waiter, other] = [randomOwner(), randomOwner()]
    for (const [index, marks] of [[waiter], [other], []].entries()) {
      const name = `${lockName}:${index}`
      const grant = await acquired(ours, name, { waiter })
      for (const mark of marks) {
        const refused = await ours.tryAcquire(request(name, { waits: true, waiter: mark }))
        strictEqual(refused.kind, 'held')
      }
      const isWanted = marks.includes(other)
      const kept = handedOver(await handOver(ours, grant, request(name, { waiter }), true))
      strictEqual(kept.wanted, isWanted)
      const freed = await handOver(ours, kept.grant, request(name, { waiter }), false)
      strictEqual(freed.kind, isWanted ? 'freed' : 'handed-over')
    }
  })

  // The contender died or gave up: from then on every hand-over would cost two requests, for nobody.
  check('a contender is waited for until it would have asked again', async (store, skip) => {
    const { ours, theirs, lockName, lapse, nowMs } = store
    if (!ours.handOver) return skip(MISSING)
    let grant = await acquired(ours, lockName)
    const askedAtMs = nowMs()
    strictEqual((await theirs.tryAcquire(request(lockName, { waits: true }))).kind, 'held')
    const untilMs = nowMs() + PATIENCE_MS
    for (let wanted = true; wanted; ) {
      ok(nowMs() <= untilMs, `it is still waited for after ${PATIENCE_MS} ms`)
      await lapse(ASKS_AGAIN_MS / 4)
      const passed = handedOver(await handOver(ours, grant, request(lockName), true))
      grant = passed.grant
      wanted = passed.wanted
      if (nowMs() < askedAtMs + ASKS_AGAIN_MS) ok(wanted, 'forgotten before it could ask again')
    }
    strictEqual(await ours.release(grant, 0), 'released')
  })
}

function testNotPassing(check: Check): void {
  // The holder was slow: handing over what it does not have any more makes a second holder.
  check('nothing is handed over by whoever does not hold it', async (store, skip) => {
    const { ours, theirs, lockName, ttlMs } = store
    if (!ours.handOver) return skip(MISSING)
    const slept = await acquired(ours, lockName, { ttlMs })
    await lapsed(store, slept)
    const first = request(lockName)
    deepStrictEqual(await handOver(ours, slept, first, true), { kind: 'not-held' })
    strictEqual(await theirs.inspect(lockName), null)
    const holder = await untilGranted(store, theirs, lockName)
    for (const evenIfWanted of [true, false]) {
      const next = request(lockName)
      deepStrictEqual(await handOver(ours, slept, next, evenIfWanted), { kind: 'not-held' })
    }
    strictEqual((await theirs.inspect(lockName))?.fencingToken, holder.fencingToken)
    strictEqual(await theirs.release(holder, 0), 'released')
  })

  // The next contender left while it was chosen: granting to it would leave the name without a
  // holder for a whole TTL.
  check('a cancelled contender is passed over, and the name is free', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.handOver) return skip(MISSING)
    const grant = await acquired(ours, lockName)
    const next = request(lockName)
    await theirs.cancel(lockName, next.owner)
    deepStrictEqual(await handOver(ours, grant, next, true), { kind: 'freed' })
    strictEqual(await theirs.inspect(lockName), null)
    strictEqual(await isRefused(ours, next), true)
    strictEqual(await ours.release(grant, 0), 'not-held')
    strictEqual(await isTaken(theirs, lockName), false)
  })

  // The answer to a hand-over was lost: the engine cancels the next owner, and that must free it.
  check('a hand-over is undone by a cancel of the next owner', async (store, skip) => {
    const { ours, theirs, lockName } = store
    if (!ours.handOver) return skip(MISSING)
    const grant = await acquired(ours, lockName)
    const next = request(lockName)
    handedOver(await handOver(ours, grant, next, true))
    await ours.cancel(lockName, next.owner)
    strictEqual(await theirs.inspect(lockName), null)
    strictEqual(await isRefused(ours, next), true)
    strictEqual(await isTaken(theirs, lockName), false)
  })
}

function handOver(
  backend: Backend,
  grant: Grant,
  next: AcquireRequest,
  evenIfWanted: boolean,
): Promise<HandOverResult> {
  if (!backend.handOver) throw new Error(MISSING)
  return backend.handOver(grant, next, evenIfWanted)
}

function handedOver(result: HandOverResult): { grant: Grant; wanted: boolean } {
  if (result.kind === 'handed-over') return result
  throw new Error(`expected a hand-over, got ${result.kind}`)
}
