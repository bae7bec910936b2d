import { describe, expect, it } from 'vitest'
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import { CANCEL } from '../../../src/backends/redlock/scripts/cancel.ts'
import { EXTEND } from '../../../src/backends/redlock/scripts/extend.ts'
import { RELEASE } from '../../../src/backends/redlock/scripts/release.ts'
import { RedisKeys } from '../../../src/wire/keys.ts'
import {
  loseEntry,
  NODE_TIMEOUT_MS,
  openModel,
  ownersOf,
  type RedlockModel,
  requestOf,
  setCounter,
} from '../../support/redlock-model.ts'

const TTL_MS = 10_000

function tombstoneMs(model: RedlockModel, place: number, owner: string): number {
  const { cancelStart = '' } = new RedisKeys('lock:', false).of('k') ?? {}
  const key = cancelStart + owner.padEnd(22, '_')
  const found = model.nodes[place]?.keys.find(key, model.nowMs(place))
  return (found?.expiresAtMs ?? 0) - model.nowMs(place)
}

describe('a release', () => {
  it('that is tried again counts the nodes of the first try', async () => {
    const model = await openModel(3)
    const { lines, backend } = model
    const grant = await model.granted('k', 'o')
    await model.clock.advance(1)
    for (const line of lines.slice(1)) line.refuse(RELEASE)
    const first = model.settled(backend.release(grant, 0))
    await expect(first).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    for (const line of lines) line.open()
    loseEntry(model, 'k', 2)
    expect(await model.settled(backend.release(grant, 0))).toBe('released')
  })

  it('is one where a node has lost the entry, and another does not answer', async () => {
    const model = await openModel(3)
    const { lines, backend } = model
    const grant = await model.granted('k', 'o')
    await model.clock.advance(1)
    loseEntry(model, 'k', 1)
    lines[2]?.refuse(RELEASE)
    expect(await model.settled(backend.release(grant, 0))).toBe('released')
  })

  it('is none where two have lost the entry', async () => {
    const model = await openModel(3)
    const grant = await model.granted('k', 'o')
    await model.clock.advance(1)
    loseEntry(model, 'k', 0, 2)
    expect(await model.settled(model.backend.release(grant, 0))).toBe('not-held')
  })

  it('makes a renewal that is under way tell of no loss, and repair nothing', async () => {
    const model = await openModel(3)
    const { lines, backend, clock } = model
    const losses: string[] = []
    const onLost = (reason: string): void => void losses.push(reason)
    const asking = backend.tryAcquire({ ...requestOf('k', 'o', TTL_MS), onLost })
    const result = await model.settled(asking)
    if (result.kind !== 'granted') throw new Error(result.kind)
    await clock.advance(1)
    loseEntry(model, 'k', 2)
    for (const line of lines) line.holdReplies(EXTEND)
    const renewing = backend.renew(result.grant, TTL_MS)
    await clock.advance(1)
    expect(await model.settled(backend.release(result.grant, 0))).toBe('released')
    for (const line of lines) line.letGo()
    expect((await model.settled(renewing)).kind).toBe('lost')
    await clock.advance(100)
    expect(losses).toEqual([])
    expect(ownersOf(model, 'k')).toBe('---')
  })
})

describe('a cancel', () => {
  it('ends the attempt, whatever it is answered afterwards', async () => {
    const model = await openModel(3)
    const { lines, backend, clock } = model
    for (const line of lines) line.holdReplies(ACQUIRE)
    const asking = model.acquire('k', 'o')
    await clock.advance(1)
    await model.settled(backend.cancel('k', 'o'.padEnd(22, '_')))
    for (const line of lines) line.letGo()
    expect((await model.settled(asking)).kind).toBe('held')
    expect(ownersOf(model, 'k')).toBe('---')
  })

  it('is confirmed by a quorum, and by no less', async () => {
    const model = await openModel(3)
    for (const line of model.lines.slice(1)) line.refuse(CANCEL)
    const cancelling = model.settled(model.backend.cancel('k', 'o'.padEnd(22, '_')))
    await expect(cancelling).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })

  it.each([
    [1000, 30_000],
    [20_000, 40_000],
  ])('of an attempt for %i ms leaves a tombstone for %i', async (ttlMs, lifeMs) => {
    const model = await openModel(3)
    const { lines, backend, clock } = model
    for (const line of lines) line.holdReplies(ACQUIRE)
    const asking = model.acquire('k', 'o', ttlMs)
    await clock.advance(1)
    await model.settled(backend.cancel('k', 'o'.padEnd(22, '_')))
    for (const place of [0, 1, 2]) expect(tombstoneMs(model, place, 'o')).toBe(lifeMs)
    for (const line of lines) line.letGo()
    await model.settled(asking)
  })

  it('lifts the counters to what a node has granted', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    const base = BigInt(clock.wallMs()) * 1000n + 5_000_000n
    setCounter(model, 0, 'k', base)
    lines[1]?.holdReplies(ACQUIRE)
    lines[2]?.refuse(ACQUIRE)
    await expect(model.settled(model.acquire('k', 'o'))).rejects.toThrow()
    await clock.advance(1)
    const key = new RedisKeys('lock:', false).of('k')?.counter ?? ''
    expect(model.nodes[1]?.keys.find(key, model.nowMs(1))?.value).toBe(String(base + 1n))
  })
})

describe('an attempt that failed', () => {
  it('sends nothing to a node whose answer is due any moment, and one request to any other', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.refuse(ACQUIRE)
    await model.granted('k', 'r')
    lines[2]?.open()
    await clock.advance(1000)
    await model.granted('other', 'x')
    lines[2]?.holdReplies(ACQUIRE)
    const counts = (): number[] => lines.map((line) => line.count(RELEASE) + line.count(CANCEL))
    const before = counts()
    expect((await model.settled(model.acquire('k', 'o'))).kind).toBe('held')
    await clock.advance(NODE_TIMEOUT_MS / 2)
    expect(counts()).toEqual(before)
    expect(ownersOf(model, 'k')).toBe('rro')
    lines[2]?.letGo()
    await clock.advance(1)
    expect(counts()).toEqual([before[0], before[1], (before[2] ?? 0) + 1])
    expect(ownersOf(model, 'k')).toBe('rr-')
  })

  it('is released where it was granted before the others refused', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[0]?.refuse(ACQUIRE)
    await model.granted('k', 'r')
    lines[0]?.open()
    await clock.advance(1000)
    await model.granted('other', 'x')
    expect((await model.settled(model.acquire('k', 'o'))).kind).toBe('held')
    await clock.advance(1)
    expect(ownersOf(model, 'k')).toBe('-rr')
    expect(lines.map((line) => line.count(CANCEL))).toEqual([0, 0, 0])
  })
})
