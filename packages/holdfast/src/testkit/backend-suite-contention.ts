/** Mutual exclusion itself: many contenders, two connections, and a count that must not interleave. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Backend, Grant } from '../core/backend.ts'
import { type Check, request, type Store } from './backend-harness.ts'

const CONTENDERS = 16
const SECTIONS_EACH = 6
const HAMMER_MS_MAX = 40_000

export function testContention(check: Check): void {
  // Read, wait, write: one overlap loses an update, and the count tells.
  check('sections of many contenders never overlap', async (store) => {
    const total = CONTENDERS * SECTIONS_EACH
    const seen = await hammer(store, async (side, grant) => {
      strictEqual(await side.release(grant, 0), 'released')
    })
    strictEqual(seen.count, total)
    strictEqual(seen.overlaps, 0)
    const sorted = [...seen.tokens].sort((a, b) => (a < b ? -1 : 1))
    deepStrictEqual(seen.tokens, sorted)
    strictEqual(new Set(seen.tokens).size, total)
  })

  // Ends by cancel are as frequent as releases when a store is slow.
  check('nor do they when half of the holders end by a cancel', async (store) => {
    const seen = await hammer(store, async (side, grant) => {
      if (grant.fencingToken % 2n === 0n) await side.cancel(grant.lockName, grant.owner)
      else strictEqual(await side.release(grant, 0), 'released')
    })
    strictEqual(seen.count, CONTENDERS * SECTIONS_EACH)
    strictEqual(seen.overlaps, 0)
  })
}

interface Seen {
  count: number
  overlaps: number
  readonly tokens: bigint[]
}

async function hammer(
  store: Store,
  end: (side: Backend, grant: Grant) => Promise<void>,
): Promise<Seen> {
  const { ours, theirs, lockName, lapse, nowMs } = store
  const seen: Seen = { count: 0, overlaps: 0, tokens: [] }
  const untilMs = nowMs() + HAMMER_MS_MAX
  let inside = 0
  const contend = async (index: number): Promise<void> => {
    const side = index % 2 === 0 ? ours : theirs
    for (let sections = 0; sections < SECTIONS_EACH; ) {
      ok(nowMs() <= untilMs, `${seen.count} sections in ${HAMMER_MS_MAX} ms`)
      const result = await side.tryAcquire(request(lockName))
      if (result.kind === 'held') {
        await lapse(1 + (index % 3))
        continue
      }
      inside += 1
      if (inside > 1) seen.overlaps += 1
      seen.tokens.push(result.grant.fencingToken)
      const before = seen.count
      await lapse(1)
      seen.count = before + 1
      inside -= 1
      sections += 1
      await end(side, result.grant)
    }
  }
  await Promise.all(Array.from({ length: CONTENDERS }, (_, index) => contend(index)))
  return seen
}
