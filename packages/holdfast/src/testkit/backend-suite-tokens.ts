/** Fencing tokens: strictly larger at every grant of a name, whatever ended the one before. */
import { ok, strictEqual } from 'node:assert/strict'
import type { Grant } from '../core/backend.ts'
import { acquired, type Check, granted, request, untilGranted } from './backend-harness.ts'

export function testTokens(check: Check): void {
  // A token that repeats or falls: the guard lets the sleeper's late write pass.
  check('tokens rise across release, expiry, cancel and early release', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const grants: Grant[] = []
    const noted = (grant: Grant): Grant => {
      grants.push(grant)
      return grant
    }
    for (const side of [ours, theirs, ours]) {
      await side.release(noted(await untilGranted(store, side, lockName)), 0)
      await side.cancel(lockName, noted(await acquired(side, lockName)).owner)
      await side.release(noted(await acquired(side, lockName)), ttlMs)
      await side.release(noted(await untilGranted(store, side, lockName)), 0)
      noted(await acquired(side, lockName, { ttlMs }))
    }
    noted(await untilGranted(store, theirs, lockName))
    assertRising(grants)
    strictEqual(grants.length, 16)
  })

  // The operator's token must be larger than the holder's, or claiming with it stops nobody.
  check('tokens rise across hand-over and revoke', async ({ ours, theirs, lockName }) => {
    const grants = [await acquired(ours, lockName)]
    for (let round = 0; round < 3; round++) {
      const last = grants.at(-1) as Grant
      const passed = await ours.handOver?.(last, request(lockName), true)
      if (passed?.kind === 'handed-over') grants.push(passed.grant)
      const { fencingToken } = grants.at(-1) as Grant
      const taken = await theirs.revoke(request(lockName), { fencingToken, reason: 'suite' })
      if (!taken) throw new Error('the holder seen was the holder')
      grants.push(taken)
    }
    assertRising(grants)
  })

  // Drawn before the lock is had, tokens come in another order than the grants.
  check('tokens rise in the order of grants under many attempts at once', async (store) => {
    const { ours, theirs, lockName, lapse, nowMs } = store
    const inOrder: Grant[] = []
    const untilMs = nowMs() + 20_000
    const contend = async (index: number): Promise<void> => {
      const side = index % 2 === 0 ? ours : theirs
      for (let sections = 0; sections < 5 && nowMs() < untilMs; ) {
        const result = await side.tryAcquire(request(lockName))
        if (result.kind === 'held') {
          await lapse(1)
          continue
        }
        inOrder.push(result.grant)
        sections += 1
        await side.release(result.grant, 0)
      }
    }
    await Promise.all(Array.from({ length: 12 }, (_, index) => contend(index)))
    assertRising(inOrder)
    strictEqual(inOrder.length, 60)
  })

  // A store was restored from a backup, or locks moved to another one: its tokens must pass what
  // the guards have seen.
  check('raise lifts later tokens above a floor, and never lowers any', async (store) => {
    const { ours, theirs, lockName } = store
    const first = await acquired(ours, lockName)
    const floor = first.fencingToken + 1_000_000_000n
    await theirs.raise(lockName, floor)
    strictEqual((await ours.inspect(lockName))?.fencingToken, first.fencingToken)
    strictEqual(await ours.release(first, 0), 'released')
    const second = await acquired(ours, lockName)
    ok(second.fencingToken > floor, `${second.fencingToken} after a floor of ${floor}`)
    await ours.release(second, 0)
    await ours.raise(lockName, 1n)
    await ours.raise(lockName, floor)
    const third = await acquired(theirs, lockName)
    ok(third.fencingToken > second.fencingToken, 'a lower floor changes nothing')
  })

  // Above 2^53 a double rounds: two grants with one token.
  check('tokens stay exact above 2^53', async ({ ours, theirs, lockName }) => {
    const floor = 2n ** 53n + 1n
    await ours.raise(lockName, floor)
    const grants: Grant[] = []
    for (const side of [ours, theirs, ours, theirs]) {
      const asked = request(lockName)
      const grant = granted(await side.tryAcquire(asked))
      grants.push(grant)
      strictEqual(granted(await side.tryAcquire(asked)).fencingToken, grant.fencingToken)
      strictEqual((await side.inspect(lockName))?.fencingToken, grant.fencingToken)
      await side.release(grant, 0)
    }
    assertRising(grants)
    ok((grants[0] as Grant).fencingToken > floor)
  })
}

function assertRising(grants: readonly Grant[]): void {
  for (const [index, { fencingToken }] of grants.entries()) {
    const before = grants[index - 1]?.fencingToken ?? 0n
    ok(fencingToken > before, `token ${fencingToken} of grant ${index + 1} follows ${before}`)
  }
}
