/** Revoke: an operator's grant in the place of the holder that was seen, and of nobody else. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import {
  acquired,
  type Check,
  isRefused,
  isTaken,
  LONG_MS,
  request,
  untilGranted,
} from './backend-harness.ts'

const reason = 'suite'

export function testRevoke(check: Check): void {
  testTaking(check)
  testTakenFrom(check)
}

function testTaking(check: Check): void {
  // The operator looked, went for a coffee, and revokes whoever holds it now.
  check('a revoke takes only from the holder that was seen', async (store) => {
    const { ours, theirs, lockName } = store
    const seen = await acquired(ours, lockName)
    await ours.release(seen, 0)
    const { fencingToken } = seen
    strictEqual(await theirs.revoke(request(lockName), { fencingToken, reason }), null)
    strictEqual(await theirs.inspect(lockName), null)
    const holder = await acquired(ours, lockName)
    strictEqual(await theirs.revoke(request(lockName), { fencingToken, reason }), null)
    const foreignOwner = holder.owner
    strictEqual(await theirs.revoke(request(lockName), { foreignOwner, reason }), null)
    strictEqual((await ours.inspect(lockName))?.fencingToken, holder.fencingToken)
    strictEqual((await ours.renew(holder, LONG_MS)).kind, 'renewed')
  })

  check('a revoke gives a grant of its own, with a larger token', async (store) => {
    const { ours, theirs, lockName } = store
    const { fencingToken, source } = await acquired(ours, lockName)
    const holder = { host: 'desk', pid: 1, label: `revoked: ${fencingToken}` }
    const asked = request(lockName, { holder })
    const taken = await theirs.revoke(asked, { fencingToken, reason })
    if (!taken) throw new Error('the holder seen was the holder')
    strictEqual(taken.owner, asked.owner)
    strictEqual(taken.source, source)
    ok(taken.fencingToken > fencingToken)
    const seen = await ours.inspect(lockName)
    strictEqual(seen?.fencingToken, taken.fencingToken)
    deepStrictEqual({ ...seen?.holder }, holder)
    ok(await isTaken(ours, lockName))
    strictEqual(await theirs.release(taken, 0), 'released')
    strictEqual(await isTaken(ours, lockName), false)
  })

  // A client resends what had no answer: "no longer the holder seen" would leave the operator's own
  // grant without an operator.
  check('a revoke that arrives twice is one revoke', async ({ ours, theirs, lockName }) => {
    const { fencingToken } = await acquired(ours, lockName)
    const asked = request(lockName)
    const first = await theirs.revoke(asked, { fencingToken, reason })
    const again = await theirs.revoke(asked, { fencingToken, reason })
    if (!first || !again) throw new Error(first ? 'refused to its own owner' : 'it was the holder')
    strictEqual(again.fencingToken, first.fencingToken)
    strictEqual(again.owner, asked.owner)
    strictEqual((await ours.inspect(lockName))?.fencingToken, first.fencingToken)
    strictEqual(await theirs.release(first, 0), 'released')
    strictEqual(await theirs.revoke(asked, { fencingToken, reason }), null)
    strictEqual(await isTaken(ours, lockName), false)
  })

  // Two operators with the same listing: both would believe that they alone cleaned up.
  check('of two revokes at once, one takes the lock', async ({ ours, theirs, lockName }) => {
    for (let round = 0; round < 5; round++) {
      const name = `${lockName}:${round}`
      const { fencingToken } = await acquired(ours, name)
      const sides = [ours, theirs, ours, theirs]
      const taken = await Promise.all(
        sides.map((side) => side.revoke(request(name), { fencingToken, reason })),
      )
      strictEqual(taken.filter((grant) => grant !== null).length, 1)
    }
  })

  // Revoking is not renewing: an operator who forgets the lease must not keep the name.
  check('a revoke lengthens nothing', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    for (let tries = 0; tries < 5; tries++) {
      const { fencingToken } = await acquired(ours, lockName, { ttlMs })
      const taken = await theirs.revoke(request(lockName), { fencingToken, reason })
      // A slow machine may come too late for a short entry.
      if (!taken) continue
      ok(taken.ttlMs <= ttlMs * 2, `of ${ttlMs} ms the revoker was given ${taken.ttlMs}`)
      await untilGranted(store, ours, lockName)
      return
    }
    throw new Error(`five entries of ${ttlMs} ms ended before they could be revoked`)
  })

  // Part of an entry's life only keeps the name taken after an expiry: nobody may work in it.
  check('a revoker is given what was left, without the holder’s lock delay', async (store) => {
    const { ours, theirs, lockName } = store
    const lockDelayMs = LONG_MS / 2
    const { fencingToken } = await acquired(ours, lockName, { lockDelayMs })
    const taken = await theirs.revoke(request(lockName), { fencingToken, reason })
    const leftMs = taken?.ttlMs ?? 0
    ok(leftMs > 0 && leftMs <= lockDelayMs + store.roundingMs, `given ${leftMs} ms`)
    const remainingMs = (await theirs.inspect(lockName))?.remainingMs ?? LONG_MS
    ok(remainingMs > lockDelayMs, `the name stays taken for ${remainingMs} ms`)
  })
}

function testTakenFrom(check: Check): void {
  // The old holder does not know yet: it renews, and later tidies up.
  check(
    'the old holder’s renewal is lost: revoked, and its release frees nothing',
    async (store) => {
      const { ours, theirs, lockName } = store
      const old = await acquired(ours, lockName)
      const { fencingToken } = old
      const taken = await theirs.revoke(request(lockName), { fencingToken, reason })
      if (!taken) throw new Error('the holder seen was the holder')
      deepStrictEqual(await ours.renew(old, LONG_MS), { kind: 'lost', reason: 'revoked' })
      strictEqual(await ours.release(old, 0), 'not-held')
      await ours.cancel(lockName, old.owner)
      strictEqual(await ours.proclaim(old, 'still me'), 'not-held')
      strictEqual((await ours.inspect(lockName))?.fencingToken, taken.fencingToken)
      strictEqual(await theirs.release(taken, 0), 'released')
      deepStrictEqual(await ours.renew(old, LONG_MS), { kind: 'lost', reason: 'expired' })
      await acquired(theirs, lockName)
      deepStrictEqual(await ours.renew(old, LONG_MS), { kind: 'lost', reason: 'superseded' })
    },
  )

  // The old holder's client resends the very request that was granted before the revoke.
  check('the old holder’s attempt is never granted again', async ({ ours, theirs, lockName }) => {
    const asked = request(lockName)
    const result = await ours.tryAcquire(asked)
    if (result.kind !== 'granted') throw new Error('the name was free')
    const { fencingToken } = result.grant
    const taken = await theirs.revoke(request(lockName), { fencingToken, reason })
    if (!taken) throw new Error('the holder seen was the holder')
    strictEqual(await isRefused(ours, asked), true)
    await theirs.release(taken, 0)
    strictEqual(await isRefused(ours, asked), true)
    strictEqual(await isTaken(ours, lockName), false)
  })

  // A revoke whose answer was lost is undone like any attempt.
  check('a cancelled revoker is granted nothing', async ({ ours, theirs, lockName }) => {
    const holder = await acquired(ours, lockName)
    const { fencingToken } = holder
    const late = request(lockName)
    await theirs.cancel(lockName, late.owner)
    strictEqual(await theirs.revoke(late, { fencingToken, reason }).catch(() => null), null)
    strictEqual((await ours.renew(holder, LONG_MS)).kind, 'renewed')
    const asked = request(lockName)
    const taken = await theirs.revoke(asked, { fencingToken, reason })
    ok(taken)
    await theirs.cancel(lockName, asked.owner)
    strictEqual(await isTaken(ours, lockName), false)
  })
}
