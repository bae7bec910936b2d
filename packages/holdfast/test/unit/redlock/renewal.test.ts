import { describe, expect, it } from 'vitest'
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import { CANCEL } from '../../../src/backends/redlock/scripts/cancel.ts'
import { EXTEND } from '../../../src/backends/redlock/scripts/extend.ts'
import { RELEASE } from '../../../src/backends/redlock/scripts/release.ts'
import { REPAIR } from '../../../src/backends/redlock/scripts/repair.ts'
import type { Grant } from '../../../src/core/backend.ts'
import type { LossReason } from '../../../src/core/errors.ts'
import { markerKey } from '../../../src/wire/keys.ts'
import {
  loseEntry,
  NODE_TIMEOUT_MS,
  openModel,
  ownersOf,
  type RedlockModel,
  requestOf,
} from '../../support/redlock-model.ts'

const TTL_MS = 10_000

async function held(nodeCount = 3): Promise<RedlockModel & { readonly grant: Grant }> {
  const model = await openModel(nodeCount)
  const grant = await model.granted('k', 'o')
  await model.clock.advance(1000)
  return { ...model, grant }
}

function put(model: RedlockModel, place: number, value: string): void {
  const expiresAtMs = model.nowMs(place) + TTL_MS
  model.nodes[place]?.keys.put('lock:k', { type: 'string', value, expiresAtMs })
}

describe('a renewal', () => {
  it('is not answered by an acquire that was sent before a node said no', async () => {
    const model = await openModel(3)
    const { lines, backend, clock } = model
    lines[2]?.holdReplies(ACQUIRE)
    const grant = await model.granted('k', 'o')
    await clock.advance(10)
    loseEntry(model, 'k', 2)
    lines[2]?.holdRequests(REPAIR)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('renewed')
    await clock.advance(10)
    lines[2]?.letRepliesGo()
    lines[2]?.holdRequests()
    loseEntry(model, 'k', 1)
    const renewed = await model.settled(backend.renew(grant, TTL_MS))
    expect(renewed).toEqual({ kind: 'lost', reason: 'expired' })
  })

  // The engine gives it up after that, and would not hear what the nodes said.
  it('is unknown before the time for a node is over', async () => {
    const { lines, backend, grant, clock } = await held()
    for (const line of lines.slice(1)) line.holdRequests(EXTEND)
    const failure = backend.renew(grant, TTL_MS).catch(({ code }) => code)
    await clock.advance(0.9 * NODE_TIMEOUT_MS)
    expect(await Promise.race([failure, 'nothing yet'])).toBe('OUTCOME_UNKNOWN')
  })

  it('by more than the prefix allows is refused, and ends nothing', async () => {
    const { backend, grant, settled } = await held()
    await expect(settled(backend.renew(grant, 70_000))).rejects.toMatchObject({
      votes: [{ answer: 'failed' }, { answer: 'failed' }, { answer: 'failed' }],
    })
    expect((await settled(backend.renew(grant, TTL_MS))).kind).toBe('renewed')
  })

  it('by less than is left is one for as long as was asked', async () => {
    const { backend, grant, settled, clock } = await held()
    const sentAtMs = clock.nowMs()
    const renewed = { kind: 'renewed', sentAtMs, ttlMs: 5000 }
    expect(await settled(backend.renew(grant, 5000))).toEqual(renewed)
  })

  it('finds the lease lost where a majority may have forgotten it', async () => {
    const model = await held()
    for (const place of [1, 2]) {
      model.nodes[place]?.keys.remove(markerKey('lock:'), model.nowMs(place))
    }
    const renewed = await model.settled(model.backend.renew(model.grant, TTL_MS))
    expect(renewed).toEqual({ kind: 'lost', reason: 'expired' })
  })

  it.each<[LossReason, string]>([
    ['expired', 'hf1:----------------------:0000000000000000001:{}'],
    ['superseded', `hf1:${'p'.repeat(22)}:0000000000000000001:{"s":1}`],
    ['superseded', 'foreign'],
  ])('says that it is %s where there stands %s', async (reason, value) => {
    const model = await held()
    for (const place of [0, 1]) put(model, place, value)
    const renewed = await model.settled(model.backend.renew(model.grant, TTL_MS))
    expect(renewed).toEqual({ kind: 'lost', reason })
  })

  it('says that it was revoked where one node knows, and another has only lost it', async () => {
    const model = await held()
    const token = String(model.grant.fencingToken).padStart(19, '0')
    put(model, 0, `hf1:${'p'.repeat(22)}:9000000000000000000:{"s":1,"r":"${token}"}`)
    loseEntry(model, 'k', 1)
    const renewed = await model.settled(model.backend.renew(model.grant, TTL_MS))
    expect(renewed).toEqual({ kind: 'lost', reason: 'revoked' })
  })

  it('waits for a node whose grant was never heard before it finds the lease lost', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    lines[2]?.holdReplies(ACQUIRE)
    const grant = await model.granted('k', 'o')
    lines[2]?.fail()
    await clock.advance(1)
    loseEntry(model, 'k', 0)
    lines[2]?.holdReplies(EXTEND)
    const renewing = backend.renew(grant, TTL_MS)
    await clock.advance(10)
    lines[2]?.letGo()
    expect((await model.settled(renewing)).kind).toBe('renewed')
  })

  it('that nobody waits for any more tells of the loss all the same', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    const losses: LossReason[] = []
    const onLost = (reason: LossReason): void => void losses.push(reason)
    const result = await model.settled(
      backend.tryAcquire({ ...requestOf('k', 'o', TTL_MS), onLost }),
    )
    if (result.kind !== 'granted') throw new Error(result.kind)
    for (const line of lines.slice(1)) line.holdRequests(EXTEND)
    const renewing = model.settled(backend.renew(result.grant, TTL_MS))
    await expect(renewing).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    loseEntry(model, 'k', 1, 2)
    for (const line of lines) line.letGo()
    await clock.advance(1)
    expect(losses).toEqual(['expired'])
  })
})

describe('a repair', () => {
  it('is made where the node says last that it lost the entry, once', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    loseEntry(model, 'k', 2)
    lines[2]?.holdReplies(EXTEND)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('renewed')
    expect(ownersOf(model, 'k')).toBe('oo-')
    lines[2]?.letGo()
    await clock.advance(1)
    expect(ownersOf(model, 'k')).toBe('ooo')
    expect(lines[2]?.count(REPAIR)).toBe(1)
  })

  it('counts from when it was sent, and makes the node one of those that keep the lease', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    loseEntry(model, 'k', 2)
    for (const line of lines.slice(0, 2)) line.holdReplies(EXTEND)
    const renewing = backend.renew(grant, TTL_MS)
    const sentAtMs = clock.nowMs()
    await clock.advance(10)
    for (const line of lines.slice(0, 2)) line.letGo()
    expect((await model.settled(renewing)).kind).toBe('renewed')
    await clock.advance(1000)
    // Two nodes are left of before, and one of them is the repaired one.
    loseEntry(model, 'k', 0)
    lines[1]?.refuse(EXTEND)
    lines[2]?.refuse(EXTEND)
    await expect(model.settled(backend.renew(grant, TTL_MS))).rejects.toMatchObject({
      code: 'OUTCOME_UNKNOWN',
    })
    lines[2]?.open()
    await clock.advance(1000)
    const renewed = await model.settled(backend.renew(grant, TTL_MS))
    // The second life of those that are left is that of the other, which the first renewal gave it.
    expect(renewed).toEqual({ kind: 'unchanged', sentAtMs, ttlMs: TTL_MS })
  })

  it('that is unanswered when the lease is given back finds a tombstone', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    loseEntry(model, 'k', 2)
    lines[2]?.holdRequests(REPAIR)
    await model.settled(backend.renew(grant, TTL_MS))
    expect(await model.settled(backend.release(grant, 0))).toBe('released')
    await clock.advance(1)
    expect(lines[2]?.count(CANCEL)).toBe(1)
    lines[2]?.letGo()
    await clock.advance(1)
    expect(lines[2]?.count(REPAIR)).toBe(1)
    expect(ownersOf(model, 'k')).toBe('---')
  })

  it('that is unanswered when the lease is lost finds a tombstone', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    loseEntry(model, 'k', 2)
    lines[2]?.holdRequests(REPAIR)
    await model.settled(backend.renew(grant, TTL_MS))
    loseEntry(model, 'k', 0, 1)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('lost')
    await clock.advance(1)
    expect(lines[2]?.count(CANCEL)).toBe(1)
    lines[2]?.letGo()
    await clock.advance(1)
    expect(lines[2]?.count(REPAIR)).toBe(1)
    expect(ownersOf(model, 'k')).toBe('---')
  })

  it('that is answered after the lease was lost is taken back', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    loseEntry(model, 'k', 2)
    lines[2]?.holdReplies(REPAIR)
    await model.settled(backend.renew(grant, TTL_MS))
    lines[2]?.refuse(CANCEL)
    loseEntry(model, 'k', 0, 1, 2)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('lost')
    lines[2]?.open()
    const before = lines[2]?.count(RELEASE) ?? 0
    lines[2]?.letGo()
    await clock.advance(1)
    expect(lines[2]?.count(RELEASE)).toBe(before + 1)
  })

  it('that was not sent needs no tombstone, and leaves nothing to be released', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    loseEntry(model, 'k', 2)
    lines[2]?.refuse(REPAIR)
    const before = lines[2]?.count(RELEASE)
    await model.settled(backend.renew(grant, TTL_MS))
    await clock.advance(1)
    lines[2]?.open()
    await model.settled(backend.release(grant, 0))
    await clock.advance(1)
    expect(lines[2]?.count(CANCEL)).toBe(0)
    expect(lines[2]?.count(RELEASE)).toBe(before)
  })

  it('of two nodes, one of which says so late, is made once on each', async () => {
    const model = await held(5)
    const { lines, backend, grant, clock } = model
    loseEntry(model, 'k', 3, 4)
    lines[4]?.holdReplies(EXTEND)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('renewed')
    await clock.advance(1)
    lines[4]?.letGo()
    await clock.advance(1)
    expect(lines.map((line) => line.count(REPAIR))).toEqual([0, 0, 0, 1, 1])
  })

  it('is none of a lease that this process has forgotten, of which it knows no more than the token', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    const value = model.values('k')[0] ?? ''
    loseEntry(model, 'k', 1, 2)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('lost')
    put(model, 1, value)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('renewed')
    await clock.advance(1)
    expect(lines[2]?.count(REPAIR)).toBe(0)
    // Nodes that do not answer have not said that it is over.
    for (const line of lines.slice(1)) line.holdRequests()
    const renewing = model.settled(backend.renew(grant, TTL_MS))
    await expect(renewing).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })
})

describe('a life', () => {
  it('is never shortened by a later answer', async () => {
    const model = await held()
    const { lines, backend, grant, clock } = model
    await model.settled(backend.renew(grant, 3 * TTL_MS))
    await clock.advance(1000)
    await model.settled(backend.renew(grant, 1000))
    await clock.advance(500)
    loseEntry(model, 'k', 0)
    lines[2]?.holdRequests()
    const sentAtMs = clock.nowMs()
    const renewed = await model.settled(backend.renew(grant, 2000))
    // One node confirms, and another has promised more than that before.
    expect(renewed).toEqual({ kind: 'renewed', sentAtMs, ttlMs: 2000 })
  })
})
