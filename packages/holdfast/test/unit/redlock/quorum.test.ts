import { describe, expect, it } from 'vitest'
import { OwedRequests } from '../../../src/backends/redlock/owed.ts'
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import { CANCEL } from '../../../src/backends/redlock/scripts/cancel.ts'
import { EXTEND } from '../../../src/backends/redlock/scripts/extend.ts'
import { PROBE } from '../../../src/backends/redlock/scripts/probe.ts'
import { RAISE_RECORDED } from '../../../src/backends/redlock/scripts/raise.ts'
import { RELEASE } from '../../../src/backends/redlock/scripts/release.ts'
import { REPAIR } from '../../../src/backends/redlock/scripts/repair.ts'
import type { Grant } from '../../../src/core/backend.ts'
import { createLocks } from '../../../src/lock/lock.ts'
import {
  loseEntry,
  NODE_TIMEOUT_MS,
  openModel,
  type RedlockModel,
  setCounter,
} from '../../support/redlock-model.ts'

const TTL_MS = 10_000
/** Nodes are looked at once a second at most; by then twice, and so at once when one refuses. */
const GAP_MS = 3000

function tokensOf(model: RedlockModel, lockName: string): (bigint | null)[] {
  return model
    .values(lockName)
    .map((value) => (value === null ? null : BigInt(value.split(':')[2] ?? '')))
}

/** With its data, as another server: it does not vote until somebody has looked at it. */
function startAnew(model: RedlockModel, place: number): void {
  model.nodes[place]?.stop()
  model.nodes[place]?.start(true)
  model.nodes[place]?.loadScripts()
}

describe('a grant', () => {
  it('has one token that a quorum records exactly, from counters that are apart', async () => {
    const model = await openModel(3)
    const base = BigInt(model.clock.wallMs()) * 1000n + 1_000_000n
    for (const [place, more] of [1000n, 5000n, 3000n].entries()) {
      setCounter(model, place, 'k', base + more)
    }
    const grant = await model.granted('k', 'o')
    expect(grant.fencingToken).toBe(base + 5001n)
    await model.clock.advance(10)
    expect(tokensOf(model, 'k')).toEqual([base + 5001n, base + 5001n, base + 5001n])
    // The second round asks only those that record less.
    expect(model.lines.map((line) => line.count(RAISE_RECORDED))).toEqual([1, 0, 1])
  })

  it('has the token of those that still own it when a node lost the entry before the second round', async () => {
    const model = await openModel(3)
    const base = BigInt(model.clock.wallMs()) * 1000n + 1_000_000n
    for (const [place, more] of [1000n, 5000n, 3000n].entries()) {
      setCounter(model, place, 'k', base + more)
    }
    for (const line of model.lines) line.holdRequests(RAISE_RECORDED)
    const asking = model.acquire('k', 'o')
    await model.clock.advance(0)
    loseEntry(model, 'k', 0)
    for (const line of model.lines) line.letGo()
    const result = await model.settled(asking)
    expect(result).toMatchObject({ kind: 'granted', grant: { fencingToken: base + 5001n } })
    expect(tokensOf(model, 'k')).toEqual([null, base + 5001n, base + 5001n])
  })

  it('is none when two nodes lost the entry before the second round, and nothing is left', async () => {
    const model = await openModel(3)
    for (const place of [0, 1, 2]) {
      setCounter(model, place, 'k', BigInt(model.clock.wallMs() + 5000 * (place + 1)) * 1000n)
    }
    for (const line of model.lines) line.holdRequests(RAISE_RECORDED)
    const asking = model.acquire('k', 'o')
    await model.clock.advance(0)
    loseEntry(model, 'k', 0, 1)
    for (const line of model.lines) line.letGo()
    expect((await model.settled(asking)).kind).toBe('held')
    // Who has lost it is not asked again.
    expect(model.lines.map((line) => line.count(RAISE_RECORDED))).toEqual([1, 1, 0])
    await model.clock.advance(10)
    expect(tokensOf(model, 'k')).toEqual([null, null, null])
  })

  // Taken back and made again for the same owner, the release came behind the second acquire, and a
  // rival got the name on the nodes that the grant rested on.
  it('goes on, and takes nothing back, where a node that would not vote may do so meanwhile', async () => {
    const model = await openModel(3, { durable: true })
    await model.clock.advance(GAP_MS)
    startAnew(model, 1)
    model.lines[2]?.holdRequests(ACQUIRE)
    const undone = (): number[] =>
      model.lines.map((line) => line.count(RELEASE) + line.count(CANCEL))
    const before = undone()
    const grant = await model.granted('k', 'o')
    await model.clock.advance(10 * NODE_TIMEOUT_MS)
    expect(undone()).toEqual(before)
    expect(tokensOf(model, 'k')).toEqual([grant.fencingToken, grant.fencingToken, null])
    expect((await model.settled(model.backend.renew(grant, TTL_MS))).kind).toBe('renewed')
  })

  it('is taken back as a whole where it was asked once more, and nothing came of that', async () => {
    const model = await openModel(3, { durable: true })
    await model.clock.advance(GAP_MS)
    startAnew(model, 1)
    model.lines[2]?.holdRequests(ACQUIRE)
    const asking = model.acquire('k', 'o')
    await model.clock.advance(NODE_TIMEOUT_MS / 2)
    // The rest of its answers come too late.
    model.lines[1]?.holdRequests(ACQUIRE)
    const error = await model.settled(asking.catch((error: unknown) => error))
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    for (const line of model.lines) line.letGo()
    await model.clock.advance(10 * NODE_TIMEOUT_MS)
    expect(model.values('k')).toEqual([null, null, null])
  })

  it('of five nodes needs three: two that are away change nothing', async () => {
    const model = await openModel(5)
    for (const place of [1, 3]) model.lines[place]?.holdRequests()
    const grant = await model.granted('k', 'o')
    expect(tokensOf(model, 'k').filter((token) => token === grant.fencingToken)).toHaveLength(3)
    model.lines[4]?.holdRequests()
    await expect(model.settled(model.acquire('other', 'p'))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      votes: [
        ...[{ answer: 'granted' }, { answer: 'failed' }, { answer: 'granted' }],
        ...[{ answer: 'failed' }, { answer: 'failed' }],
      ],
    })
    await model.clock.advance(10)
    expect(tokensOf(model, 'other')).toEqual([null, null, null, null, null])
  })
})

describe('a renewal', () => {
  it('lasts for the quorum-th largest life of the nodes', async () => {
    const model = await openModel(5)
    const grant = await model.granted('k', 'o')
    await model.clock.advance(1000)
    const firstAtMs = model.clock.nowMs()
    await expect(model.settled(model.backend.renew(grant, TTL_MS))).resolves.toEqual({
      ...{ kind: 'renewed', sentAtMs: firstAtMs, ttlMs: TTL_MS },
    })
    await model.clock.advance(1000)
    for (const place of [2, 3]) model.lines[place]?.holdRequests()
    loseEntry(model, 'k', 4)
    // Two confirm now, the third life is one of before.
    await expect(model.settled(model.backend.renew(grant, TTL_MS))).resolves.toEqual({
      ...{ kind: 'unchanged', sentAtMs: firstAtMs, ttlMs: TTL_MS },
    })
  })

  // The engine refuses a promise that counts from a time to come, and the caller got that refusal.
  it('by less than is left counts from when it was sent', async () => {
    const model = await openModel(3)
    const locks = createLocks(model.backend, { clock: model.clock })
    const lease = await model.settled(locks.acquire('k', { ttlMs: 30_000, renew: false }))
    await model.clock.advance(1000)
    await model.settled(lease.renew(5000))
    expect(lease.isHeld).toBe(true)
    await model.settled(lease.release())
    await model.settled(locks.close())
  })

  // R9. Mutant: the late OK makes the node count again, and a lease that one node keeps goes on.
  it('that was answered late revives no node that has said since that it is free', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    const grant = await model.granted('k', 'o')
    await clock.advance(1000)
    lines[1]?.holdReplies(EXTEND)
    lines[2]?.holdRequests()
    const unknown = { code: 'OUTCOME_UNKNOWN' }
    await expect(model.settled(backend.renew(grant, TTL_MS))).rejects.toMatchObject(unknown)
    loseEntry(model, 'k', 1)
    lines[1]?.open()
    await clock.advance(1000)
    // Nobody waits for the two any more; the one answers all the same.
    await expect(model.settled(backend.renew(grant, TTL_MS))).rejects.toMatchObject(unknown)
    await clock.advance(0)
    lines[1]?.letGo()
    await clock.advance(0)
    // One node alone has confirmed, which is no reason for a repair.
    expect(model.values('k')[1]).toBeNull()
    lines[1]?.holdRequests()
    lines[2]?.letGo()
    await clock.advance(0)
    loseEntry(model, 'k', 2)
    const third = await model.settled(backend.renew(grant, TTL_MS))
    expect(third).toEqual({ kind: 'lost', reason: 'expired' })
  })
})

/**
 * A renewal finds node 0 free, what that node keeps back of before is done then, and the "free" is answered
 * last. No quorum has confirmed the renewal, so that nothing is repaired.
 */
async function releaseAmidRenewal(model: RedlockModel, grant: Grant): Promise<void> {
  const { lines, clock, backend } = model
  const before = lines[0]?.count(EXTEND) ?? 0
  for (const place of [0, 1]) lines[place]?.holdReplies(EXTEND)
  const renewing = model.settled(backend.renew(grant, TTL_MS))
  await clock.advance(1)
  expect(lines[0]?.count(EXTEND)).toBe(before + 1)
  lines[0]?.letRequestsGo()
  await clock.advance(1)
  expect(model.values('k')[0]).toContain('hf1:o')
  lines[0]?.letGo()
  await clock.advance(1)
  expect(await model.settled(backend.release(grant, 0))).toBe('released')
  await expect(renewing).resolves.toMatchObject({ kind: 'lost' })
  await clock.advance(10)
  expect(model.values('k')).toEqual([null, null, null])
}

describe('a lease that is given back', () => {
  // Requests that go by two connections overtake each other, and their answers do so again.
  it('goes on a node whose grant came behind a renewal, whose "free" was answered last', async () => {
    const model = await openModel(3)
    model.lines[0]?.holdRequests(ACQUIRE)
    const grant = await model.granted('k', 'o')
    await releaseAmidRenewal(model, grant)
  })

  it('goes on a node that was repaired behind a renewal, whose "free" was answered last', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    const grant = await model.granted('k', 'o')
    await clock.advance(1)
    loseEntry(model, 'k', 0)
    lines[0]?.holdRequests(REPAIR)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('renewed')
    await releaseAmidRenewal(model, grant)
  })
})

describe('an attempt that failed', () => {
  async function refused(model: RedlockModel): Promise<void> {
    // A rival has two nodes, so that the third is this owner's if its request arrives.
    model.lines[0]?.holdRequests()
    await model.granted('k', 'rival')
    model.lines[0]?.open()
  }

  it('is released where the grant is answered late', async () => {
    const model = await openModel(3)
    await refused(model)
    model.lines[0]?.holdReplies(ACQUIRE)
    const result = await model.settled(model.acquire('k', 'o'))
    expect(result.kind).toBe('held')
    expect(model.values('k')[0]).toContain('hf1:o')
    const before = model.lines[0]?.count(RELEASE) ?? 0
    model.lines[0]?.letGo()
    await model.clock.advance(0)
    expect(model.lines[0]?.count(RELEASE)).toBe(before + 1)
    expect(model.values('k')[0] ?? '').not.toContain('hf1:o')
  })

  it('is cancelled where there is no answer in time, and a request that arrives after that finds a tombstone', async () => {
    const model = await openModel(3)
    await refused(model)
    model.lines[0]?.holdRequests(ACQUIRE)
    expect((await model.settled(model.acquire('k', 'o'))).kind).toBe('held')
    await model.clock.advance(3 * NODE_TIMEOUT_MS)
    expect(model.lines[0]?.count(CANCEL)).toBe(1)
    model.lines[0]?.letGo()
    await model.clock.advance(0)
    expect(model.lines[0]?.count(ACQUIRE)).toBeGreaterThan(0)
    expect(model.values('k')[0] ?? '').not.toContain('hf1:o')
  })
})

describe('what a node is owed', () => {
  it('is the newest thousand, one for each key', () => {
    const owed = new OwedRequests()
    const put = (key: string): void => owed.put({ key, script: PROBE, keys: [], args: [] })
    for (let count = 0; count < 1000; count++) put(`${count}`)
    put('0')
    expect(owed.size).toBe(1000)
    put('more')
    expect(owed.size).toBe(1000)
    const left = Array.from({ length: 1000 }, () => owed.take()?.key)
    expect(left[0]).toBe('2')
    expect(left.slice(-2)).toEqual(['0', 'more'])
    expect(owed.take()).toBeNull()
  })

  it('has the order in which it was owed last', () => {
    const owed = new OwedRequests()
    for (const key of ['a', 'b', 'a']) owed.put({ key, script: PROBE, keys: [], args: [] })
    expect([owed.take()?.key, owed.take()?.key, owed.take()]).toEqual(['b', 'a', null])
  })

  it('is told once it answers, of 1,100 cancels the newest', async () => {
    const model = await openModel(3)
    model.lines[2]?.holdRequests()
    for (let count = 0; count < 1100; count++) {
      await model.settled(model.backend.cancel('k', `c${count}`.padEnd(22, '_')))
      if (count === 0) await model.clock.advance(3 * NODE_TIMEOUT_MS)
    }
    model.lines[2]?.letGo()
    await model.clock.advance(5000)
    const all = model.nodes[2]?.keys.all(model.nowMs(2)) ?? []
    const told = all.flatMap(([key]) => /cancel:.*c(\d+)_/.exec(key)?.[1] ?? []).map(Number)
    expect(told).toContain(1099)
    expect(told.filter((count) => count >= 100)).toHaveLength(1000)
    expect(told.length).toBeLessThan(1000 + 20)
  })
})
