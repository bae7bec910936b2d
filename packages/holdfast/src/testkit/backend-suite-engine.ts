/** The backend under the real engine: exclusion, waiting, leaving, and no process that starves. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import { LeaseLostError, LockHeldError } from '../core/errors.ts'
import type { Locks } from '../core/lease.ts'
import { createLocksWith } from '../lock/lock.ts'
import { acquired, type Check, type Store } from './backend-harness.ts'

const CONTENDERS_EACH = 6
const SECTIONS_EACH = 4
const WAIT_MS = 45_000

export function testEngine(check: Check): void {
  testExclusion(check)
  testWaiting(check)
  testEnding(check)
}

function open({ seams, ours, theirs }: Store): { ours: Locks; theirs: Locks } {
  return { ours: createLocksWith(seams, ours), theirs: createLocksWith(seams, theirs) }
}

function testExclusion(check: Check): void {
  // What all of it is for: read, wait, write, from two processes at once.
  check('using: sections of many contenders never overlap', async (store) => {
    const seen = await contend(store)
    strictEqual(seen.overlaps, 0)
    strictEqual(seen.count, 2 * CONTENDERS_EACH * SECTIONS_EACH)
    const sorted = [...seen.tokens].sort((a, b) => (a < b ? -1 : 1))
    deepStrictEqual(seen.tokens, sorted)
    strictEqual(new Set(seen.tokens).size, seen.tokens.length)
  })

  // The process that holds passes the lock on within its own line until the other gives up.
  check('using: neither of two processes waits until the other is done', async (store, skip) => {
    // Without both, the one that releases is the first to ask again while the other sleeps.
    if (!store.ours.handOver) return skip('the backend has no handOver')
    if (store.ours.capabilities.wakeUp === 'poll') return skip("capabilities.wakeUp is 'poll'")
    const { sides } = await contend(store)
    ok(sides.indexOf('theirs') < sides.lastIndexOf('ours'), sides.join(' '))
    ok(sides.indexOf('ours') < sides.lastIndexOf('theirs'), sides.join(' '))
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

async function contend(store: Store): Promise<Seen> {
  const locks = open(store)
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
