/** Renewal: lengthens the caller's own entry, and does nothing else. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { randomOwner } from '../core/owner.ts'
import { acquired, type Check, isTaken, LONG_MS, lapsed, untilGranted } from './backend-harness.ts'

export function testRenewal(check: Check): void {
  // A job that runs longer than one TTL.
  check('a renewed entry outlives its first TTL and keeps its token', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    // A slow machine may be late for a short entry: then the answer is lost, and the next try counts.
    for (let tries = 0; tries < 5; tries++) {
      const grant = await acquired(ours, lockName, { ttlMs })
      const renewal = await ours.renew(grant, LONG_MS)
      if (renewal.kind === 'lost') continue
      strictEqual(renewal.kind, 'renewed')
      ok(renewal.ttlMs >= LONG_MS * 0.5)
      await lapsed(store, grant)
      ok(await isTaken(theirs, lockName))
      strictEqual((await theirs.inspect(lockName))?.fencingToken, grant.fencingToken)
      return
    }
    throw new Error(`five entries of ${ttlMs} ms ended before they could be renewed`)
  })

  // A renewal with a shorter TTL, or a late one, must not take back what was promised.
  check('a renewal never shortens', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const grant = await acquired(ours, lockName)
    const renewal = await ours.renew(grant, ttlMs)
    ok(renewal.kind !== 'lost', 'the holder still holds it')
    await lapsed(store, { ...grant, ttlMs })
    ok(await isTaken(theirs, lockName))
    const remainingMs = (await theirs.inspect(lockName))?.remainingMs ?? LONG_MS
    ok(remainingMs > ttlMs, `${remainingMs} ms remain`)
    strictEqual(await ours.release(grant, 0), 'released')
  })

  // A renewal that writes the whole entry anew drops what was proclaimed since, or begins a new time.
  check('a renewal changes nothing but the life', async ({ ours, theirs, lockName }) => {
    const holder = { host: 'host', pid: 7, label: 'label', value: 'first' }
    const grant = await acquired(ours, lockName, { holder })
    strictEqual(await ours.proclaim(grant, 'second'), 'proclaimed')
    const before = await theirs.inspect(lockName)
    for (let count = 0; count < 2; count++) await ours.renew(grant, LONG_MS)
    const after = await theirs.inspect(lockName)
    deepStrictEqual({ ...after?.holder }, { ...holder, value: 'second' })
    strictEqual(after?.fencingToken, grant.fencingToken)
    strictEqual(after?.sinceAtMs, before?.sinceAtMs)
  })

  // Ten renewals are one TTL from now, not ten: a crash would hold the name for that long.
  check('renewals do not add up', async (store) => {
    const { ours, lockName } = store
    const grant = await acquired(ours, lockName)
    for (let count = 0; count < 10; count++) await ours.renew(grant, LONG_MS)
    const remainingMs = (await ours.inspect(lockName))?.remainingMs ?? 0
    ok(remainingMs <= LONG_MS + store.roundingMs, `${remainingMs} ms remain`)
  })

  // Renewal written as "set if missing or mine" takes a name anew that somebody may have used since.
  check('a renewal never creates an entry', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const ended = await acquired(ours, lockName, { ttlMs })
    await lapsed(store, ended)
    const released = await untilGranted(store, ours, lockName)
    await ours.release(released, 0)
    for (const grant of [ended, released]) {
      deepStrictEqual(await ours.renew(grant, LONG_MS), { kind: 'lost', reason: 'expired' })
      strictEqual(await theirs.inspect(lockName), null)
    }
    strictEqual(await isTaken(theirs, lockName), false)
  })

  // The sleeper wakes up and renews: it must learn that another holder is at work.
  check('a renewal of an entry that another owner has is lost: superseded', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const slept = await acquired(ours, lockName, { ttlMs })
    const next = await untilGranted(store, theirs, lockName)
    deepStrictEqual(await ours.renew(slept, LONG_MS), { kind: 'lost', reason: 'superseded' })
    strictEqual((await theirs.inspect(lockName))?.fencingToken, next.fencingToken)
    strictEqual(await theirs.release(next, 0), 'released')
  })

  // Ownership by token, by host or by connection: anybody who read a listing could hold on to it.
  check('only the owner renews', async (store) => {
    const { ours, theirs, lockName } = store
    const grant = await acquired(ours, lockName, { ttlMs: LONG_MS / 2 })
    for (const side of [ours, theirs]) {
      const forged = { ...grant, owner: randomOwner() }
      deepStrictEqual(await side.renew(forged, LONG_MS), { kind: 'lost', reason: 'superseded' })
    }
    const remainingMs = (await ours.inspect(lockName))?.remainingMs ?? 0
    ok(remainingMs <= LONG_MS / 2 + store.roundingMs, `${remainingMs} ms remain`)
  })
}
