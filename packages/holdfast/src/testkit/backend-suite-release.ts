/** Release: ends the caller's own entry, at once or after the rest of a minimum hold. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Backend } from '../core/backend.ts'
import { randomOwner } from '../core/owner.ts'
import { acquired, type Check, isTaken, LONG_MS, request, untilGranted } from './backend-harness.ts'

export function testRelease(check: Check): void {
  testEnding(check)
  testEarlyRelease(check)
}

function testEnding(check: Check): void {
  // A retry after a lost reply: the second call must not free what a next holder has since got.
  check('a release frees the name at once, and only the first one does', async (store) => {
    const { ours, theirs, lockName } = store
    const grant = await acquired(ours, lockName)
    strictEqual(await ours.release(grant, 0), 'released')
    strictEqual(await ours.release(grant, 0), 'not-held')
    strictEqual(await ours.inspect(lockName), null)
    const next = await acquired(theirs, lockName)
    strictEqual(await ours.release(grant, 0), 'not-held')
    ok(await isTaken(ours, lockName))
    strictEqual(await theirs.release(next, 0), 'released')
  })

  // The accident every lease must survive: a holder sleeps through its TTL, another owner takes
  // over, and the sleeper wakes up and tidies up after itself. A third one would walk in.
  check('a release by an owner whose entry ended disturbs nobody', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const slept = await acquired(ours, lockName, { ttlMs })
    const next = await untilGranted(store, theirs, lockName)
    strictEqual(await ours.release(slept, 0), 'not-held')
    strictEqual(await ours.release(slept, LONG_MS), 'not-held')
    ok(await isTaken(ours, lockName))
    strictEqual((await theirs.inspect(lockName))?.fencingToken, next.fencingToken)
    strictEqual(await theirs.release(next, 0), 'released')
  })

  // Tokens are shown to everybody; knowing one must not be enough to end a lock.
  check('only the owner releases', async ({ ours, theirs, lockName }) => {
    const grant = await acquired(ours, lockName)
    for (const side of [ours, theirs]) {
      const forged = { ...grant, owner: randomOwner() }
      strictEqual(await side.release(forged, 0), 'not-held')
      strictEqual(await side.release(forged, LONG_MS), 'not-held')
    }
    strictEqual((await ours.inspect(lockName))?.fencingToken, grant.fencingToken)
    strictEqual(await ours.release(grant, 0), 'released')
  })
}

function testEarlyRelease(check: Check): void {
  // Ten machines run a job at midnight; the first is done before the clock of the last strikes.
  check('after an early release the name stays taken, by nobody', async (store) => {
    const { ours, theirs, lockName } = store
    const grant = await acquired(ours, lockName)
    strictEqual(await ours.release(grant, LONG_MS), 'released')
    for (const side of [ours, theirs]) {
      const refused = await side.tryAcquire(request(lockName))
      if (refused.kind !== 'held') throw new Error('granted while the name rests')
      strictEqual(refused.holder, null)
      strictEqual(await side.inspect(lockName), null)
      strictEqual(await countListed(side, lockName), 0)
    }
  })

  check('a name that rests is nobody’s to renew, release, cancel or revoke', async (store) => {
    const { ours, theirs, lockName } = store
    const grant = await acquired(ours, lockName)
    await ours.release(grant, LONG_MS)
    strictEqual((await ours.renew(grant, LONG_MS)).kind, 'lost')
    strictEqual(await ours.release(grant, 0), 'not-held')
    strictEqual(await ours.proclaim(grant, 'x'), 'not-held')
    await ours.cancel(lockName, grant.owner)
    const { fencingToken } = grant
    const taken = await theirs.revoke(request(lockName), { fencingToken, reason: 'suite' })
    strictEqual(taken, null)
    ok(await isTaken(theirs, lockName))
  })

  // Kept as long as the lease would have lived, the next run is refused as well.
  check('a rest ends by itself, not before its time and long before the TTL', async (store) => {
    const { ours, theirs, lockName, ttlMs, nowMs } = store
    const grant = await acquired(ours, lockName)
    const releasedAtMs = nowMs()
    strictEqual(await ours.release(grant, ttlMs), 'released')
    const next = await untilGranted(store, theirs, lockName)
    const restedMs = nowMs() - releasedAtMs
    ok(restedMs >= ttlMs - store.roundingMs, `rested ${restedMs} of ${ttlMs} ms`)
    ok(next.fencingToken > grant.fencingToken)
    deepStrictEqual(await ours.renew(grant, LONG_MS), { kind: 'lost', reason: 'superseded' })
  })
}

async function countListed(backend: Backend, lockName: string): Promise<number> {
  let count = 0
  for await (const info of backend.list(lockName, 10)) if (info.lockName === lockName) count += 1
  return count
}
