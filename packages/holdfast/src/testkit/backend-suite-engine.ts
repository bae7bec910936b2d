/** The backend under the real engine: exclusion, waiting, leaving, and no process that starves. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import { LeaseLostError, LockHeldError } from '../core/errors.ts'
import type { Locks } from '../core/lease.ts'
import { createLocksWith } from '../lock/lock.ts'
import { acquired, type Check, type Store } from './backend-harness.ts'

const NEITHER = 'the backend has neither handOver nor acquireInTurn'
const CONTENDERS_EACH = 6
const SECTIONS_EACH = 4
const WAIT_MS = 45_000
const HOLD_TTLS = 3
const HOLD_TTL_MS_MIN = 500
const HOLD_TTL_MS_MAX = 30_000
/** Late, but early enough: what a renewal gives too little of is over before the next one. */
const HOLD_RENEW_SHARE = 0.6

export function testEngine(check: Check): void {
  testExclusion(check)
  testHolding(check)
  testWaiting(check)
  testEnding(check)
}

function open({ seams, ours, theirs }: Store): { ours: Locks; theirs: Locks } {
  return { ours: createLocksWith(seams, ours), theirs: createLocksWith(seams, theirs) }
}

function testExclusion(check: Check): void {
  // What all of it is for: read, wait, write, from two processes at once.
  check('using: sections of many contenders never overlap', async (store) => {
    const seen = await contend(store, open(store))
    strictEqual(seen.overlaps, 0)
    strictEqual(seen.count, 2 * CONTENDERS_EACH * SECTIONS_EACH)
    const sorted = [...seen.tokens].sort((a, b) => (a < b ? -1 : 1))
    deepStrictEqual(seen.tokens, sorted)
    strictEqual(new Set(seen.tokens).size, seen.tokens.length)
  })

  // The process that holds passes the lock on within its own line until the other gives up.
  check('using: neither of two processes waits until the other is done', async (store, skip) => {
    // Without both, the one that releases is the first to ask again while the other sleeps.
    if (!store.ours.handOver && !store.ours.acquireInTurn) return skip(NEITHER)
    if (store.ours.capabilities.wakeUp === 'poll') return skip("capabilities.wakeUp is 'poll'")
    assertTurns(await contend(store, open(store)))
  })

  // A server and a library in it, each with locks of its own on the backend that they share.
  check('using: two engines on one backend take turns as two processes do', async (store, skip) => {
    if (!store.ours.handOver && !store.ours.acquireInTurn) return skip(NEITHER)
    if (store.ours.capabilities.wakeUp === 'poll') return skip("capabilities.wakeUp is 'poll'")
    assertTurns(await contend(store, open({ ...store, theirs: store.ours })))
  })
}

function testHolding(check: Check): void {
  // The job runs for an hour under a TTL of 30 s, and all that time somebody stands at the door.
  check('a lease that is renewed keeps a contender out over several TTLs', async (store) => {
    // On real time a machine may be too slow for a short lease: then the next one lives longer.
    const shortest = Math.max(store.ours.capabilities.ttlMsMin, store.ttlMs, HOLD_TTL_MS_MIN)
    const ttls = store.clock ? [HOLD_TTL_MS_MAX] : [1, 2, 4, 8].map((factor) => factor * shortest)
    for (const ttlMs of ttls) if (await holdAgainst(store, ttlMs)) return
    throw new Error(`leases of ${ttls.join(', ')} ms were lost although they were renewed`)
  })
}

function testWaiting(check: Check): void {
  check('acquire waits for a release, tryAcquire and waitMs 0 do not', async (store) => {
    const { ours, theirs } = open(store)
    const { lockName } = store
    const held = await store.settled(theirs.acquire(lockName), 'a free name')
    strictEqual(await store.settled(ours.tryAcquire(lockName), 'an answer'), null)
    await rejects(store.settled(ours.acquire(lockName, { waitMs: 0 }), 'an answer'), LockHeldError)
    let isGranted = false
    const waiting = ours.acquire(lockName, { waitMs: WAIT_MS }).then((lease) => {
      isGranted = true
      return lease
    })
    await store.lapse(100)
    strictEqual(isGranted, false)
    strictEqual(await held.release(), 'released')
    const lease = await store.settled(waiting, 'a name that was released')
    ok(lease.fencingToken > held.fencingToken)
    lease.assertValid()
    strictEqual(await lease.release(), 'released')
  })

  // Whoever gave up must not be granted the lock afterwards, with nobody there to release it.
  check('a contender whose wait is over leaves nothing behind', async (store) => {
    const { ours, theirs } = open(store)
    const { lockName } = store
    const held = await store.settled(theirs.acquire(lockName), 'a free name')
    // What a connection or a session takes at first is no part of the wait.
    strictEqual(await store.settled(ours.tryAcquire(lockName), 'an answer'), null)
    const waiting = ours.acquire(lockName, { waitMs: 150 })
    const error = await store.settled(
      waiting.then(
        () => null,
        (reason: unknown) => reason,
      ),
      'the end of a wait',
    )
    ok(error instanceof LockHeldError)
    ok(error.waitedMs >= 150, `waited ${error.waitedMs} ms`)
    strictEqual(error.holder?.pid, process.pid)
    await isFreeAfter(store, held, ours)
  })

  // A request was cancelled by its user; the lock it waited for must go to somebody else.
  check('a contender that aborts leaves with its reason and nothing behind', async (store) => {
    const { ours, theirs } = open(store)
    const { lockName } = store
    const held = await store.settled(theirs.acquire(lockName), 'a free name')
    const controller = new AbortController()
    const { signal } = controller
    const leaving = [1, 2, 3].map(() => ours.acquire(lockName, { waitMs: WAIT_MS, signal }))
    const outcomes = Promise.allSettled(leaving)
    await store.lapse(50)
    const reason = new Error('the user left')
    controller.abort(reason)
    for (const outcome of await store.settled(outcomes, 'contenders that aborted')) {
      ok(outcome.status === 'rejected' && outcome.reason === reason)
    }
    await isFreeAfter(store, held, ours)
  })
}

function testEnding(check: Check): void {
  // The holder's machine lost power.
  check('a contender gets the lock of a holder that crashed', async (store) => {
    const { ours } = open(store)
    const { lockName, ttlMs } = store
    const crashed = await acquired(store.theirs, lockName, { ttlMs })
    const waiting = ours.acquire(lockName, { waitMs: WAIT_MS })
    const lease = await store.settled(waiting, 'the end of a crashed holder')
    ok(lease.fencingToken > crashed.fencingToken)
    strictEqual(await lease.release(), 'released')
  })

  // A deployment: what the old process held must not block the new one for a TTL.
  check('close releases what is held', async (store) => {
    const { ours, theirs } = open(store)
    const { lockName } = store
    const lease = await store.settled(ours.acquire(lockName), 'a free name')
    await store.settled(ours.close(), 'close')
    strictEqual(lease.isHeld, false)
    const next = await store.settled(theirs.tryAcquire(lockName), 'an answer')
    ok(next)
    strictEqual(await next.release(), 'released')
  })

  check('a holder whose lock is revoked learns it from its next renewal', async (store) => {
    const { ours, theirs } = open(store)
    const { lockName } = store
    const lease = await store.settled(ours.acquire(lockName), 'a free name')
    const { fencingToken } = lease
    const reason = 'suite'
    const taking = theirs.revoke(lockName, { fencingToken, reason })
    const taken = await store.settled(taking, 'a revoke')
    ok(taken && taken.fencingToken > fencingToken)
    await rejects(
      store.settled(lease.renew(), 'an answer'),
      (error: unknown) => error instanceof LeaseLostError && error.reason === 'revoked',
    )
    strictEqual(await store.settled(lease.release(), 'an answer'), 'not-held')
    strictEqual(await store.settled(taken.release(), 'an answer'), 'released')
    ok(await store.settled(ours.tryAcquire(lockName), 'an answer'))
  })
}

async function isFreeAfter(
  store: Store,
  held: { release(): Promise<'released' | 'not-held'> },
  ours: Locks,
): Promise<void> {
  strictEqual(await store.settled(held.release(), 'a release'), 'released')
  await store.lapse(100)
  strictEqual(await store.ours.inspect(store.lockName), null)
  ok(await store.settled(ours.tryAcquire(store.lockName), 'an answer'))
}

interface Seen {
  count: number
  overlaps: number
  readonly tokens: bigint[]
  readonly sides: ('ours' | 'theirs')[]
}

function assertTurns({ sides }: Seen): void {
  ok(sides.indexOf('theirs') < sides.lastIndexOf('ours'), sides.join(' '))
  ok(sides.indexOf('ours') < sides.lastIndexOf('theirs'), sides.join(' '))
}

/** @returns Whether the lease was held to the end; either way nobody may hold the name beside it. */
async function holdAgainst(store: Store, ttlMs: number): Promise<boolean> {
  const { ours, theirs } = open(store)
  const lockName = `${store.lockName}:${ttlMs}`
  const renewEveryMs = Math.floor(ttlMs * HOLD_RENEW_SHARE)
  const lease = await store.settled(ours.acquire(lockName, { ttlMs, renewEveryMs }), 'a free name')
  let isGranted = false
  let isHeldBeside = false
  const waitMs = HOLD_TTLS * ttlMs + WAIT_MS
  const waiting = theirs.acquire(lockName, { waitMs }).then((next) => {
    isGranted = true
    // Asked at the very moment: a lease that was lost in time has nothing to fear.
    isHeldBeside = lease.isHeld
    return next
  })
  // It is waited for below, unless something else fails before.
  waiting.catch(() => undefined)
  const untilMs = store.nowMs() + HOLD_TTLS * ttlMs
  while (store.nowMs() < untilMs && lease.isHeld && !isGranted) await store.lapse(ttlMs / 20)
  const isHeld = lease.isHeld
  await store.settled(lease.release(), 'a release')
  const next = await store.settled(waiting, 'a name that was released')
  strictEqual(isHeldBeside, false)
  ok(next.fencingToken > lease.fencingToken)
  strictEqual(await store.settled(next.release(), 'a release'), 'released')
  return isHeld
}

async function contend(store: Store, locks: { ours: Locks; theirs: Locks }): Promise<Seen> {
  const seen: Seen = { count: 0, overlaps: 0, tokens: [], sides: [] }
  let inside = 0
  const work = async (side: 'ours' | 'theirs'): Promise<void> => {
    for (let section = 0; section < SECTIONS_EACH; section++) {
      await locks[side].using(store.lockName, { waitMs: WAIT_MS }, async (lease) => {
        inside += 1
        if (inside > 1) seen.overlaps += 1
        seen.tokens.push(lease.fencingToken)
        seen.sides.push(side)
        const before = seen.count
        await store.lapse(2)
        lease.assertValid()
        seen.count = before + 1
        inside -= 1
      })
    }
  }
  const workers: Promise<void>[] = []
  for (let index = 0; index < CONTENDERS_EACH; index++) workers.push(work('ours'), work('theirs'))
  await store.settled(Promise.all(workers), 'all sections')
  return seen
}
