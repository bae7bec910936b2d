import { describe, expect, it } from 'vitest'
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import { STATE } from '../../../src/backends/redlock/scripts/admission.ts'
import { CANCEL } from '../../../src/backends/redlock/scripts/cancel.ts'
import { RAISE } from '../../../src/backends/redlock/scripts/raise.ts'
import { RELEASE } from '../../../src/backends/redlock/scripts/release.ts'
import { markerKey } from '../../../src/wire/keys.ts'
import {
  loseEntry,
  NODE_TIMEOUT_MS,
  openModel,
  ownersOf,
  type RedlockModel,
} from '../../support/redlock-model.ts'

const TTL_MS = 10_000
const MARKER = markerKey('lock:')

function loseMarker(model: RedlockModel, ...places: number[]): void {
  for (const place of places) model.nodes[place]?.keys.remove(MARKER, model.nowMs(place))
}

describe('an attempt that asks again because nodes are let vote meanwhile', () => {
  // The accident: the first try was taken back, and the second, by the same owner, was granted by the
  // node that had the release still to come. It left one node of three under a lease.
  it('is not taken back in between, so that nothing late takes its grant', async () => {
    const model = await openModel(3)
    const { lines, nodes, clock } = model
    // Nodes are looked at once a second at most.
    await clock.advance(2000)
    const marker = nodes[1]?.keys.find(MARKER, model.nowMs(1))?.value ?? ''
    loseMarker(model, 1)
    lines[0]?.holdRequests(RELEASE)
    lines[1]?.holdRequests(STATE)
    lines[2]?.holdRequests()
    const asking = model.acquire('k', 'o')
    await clock.advance(3 * NODE_TIMEOUT_MS)
    nodes[1]?.keys.put(MARKER, { type: 'string', value: marker, expiresAtMs: null })
    // The first node answers other requests, so it is waited for.
    await model.settled(model.backend.inspect('other'))
    lines[1]?.letGo()
    expect((await model.settled(asking)).kind).toBe('granted')
    await clock.advance(10)
    lines[0]?.letGo()
    await clock.advance(10)
    expect(ownersOf(model, 'k')).toBe('oo-')
  })

  it('leaves nothing when it is cancelled while it waits for that', async () => {
    const model = await openModel(3)
    const { lines, nodes, clock } = model
    await clock.advance(2000)
    const before = lines[1]?.count(ACQUIRE) ?? 0
    const marker = nodes[1]?.keys.find(MARKER, model.nowMs(1))?.value ?? ''
    loseMarker(model, 1)
    lines[1]?.holdRequests(STATE)
    lines[2]?.refuse()
    const asking = model.acquire('k', 'o')
    await clock.advance(10)
    expect(ownersOf(model, 'k')).toBe('o--')
    await model.settled(model.backend.cancel('k', 'o'.padEnd(22, '_')))
    nodes[1]?.keys.put(MARKER, { type: 'string', value: marker, expiresAtMs: null })
    lines[1]?.letGo()
    expect((await model.settled(asking)).kind).toBe('held')
    await clock.advance(10)
    expect(ownersOf(model, 'k')).toBe('---')
    expect(lines[1]?.count(ACQUIRE)).toBe(before + 1)
  })

  it('asks once more, and not for ever', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    await clock.advance(2000)
    const before = lines[1]?.count(ACQUIRE) ?? 0
    loseMarker(model, 0, 1)
    const asking = model.acquire('k', 'o')
    await expect(model.settled(asking)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expect(lines[1]?.count(ACQUIRE)).toBeLessThanOrEqual(before + 2)
    await clock.advance(10)
    expect(ownersOf(model, 'k')).toBe('---')
  })
})

describe('a lease that is lost', () => {
  // The accident: what was left of it was deleted at once, and with it the lock delay.
  it('leaves what is left of it, until its holder says that it has stopped', async () => {
    const model = await openModel(3)
    const grant = await model.granted('k', 'o')
    await model.clock.advance(1)
    loseEntry(model, 'k', 1, 2)
    const renewed = await model.settled(model.backend.renew(grant, TTL_MS))
    expect(renewed).toEqual({ kind: 'lost', reason: 'expired' })
    await model.clock.advance(10)
    expect(ownersOf(model, 'k')).toBe('o--')
    expect(await model.settled(model.backend.release(grant, 0))).toBe('not-held')
    await model.clock.advance(10)
    expect(ownersOf(model, 'k')).toBe('---')
  })
})

describe('a release that a node was not sent', () => {
  it('overtakes no acquire: what is granted behind it is taken back', async () => {
    const model = await openModel(3)
    const { lines, backend, clock } = model
    lines[0]?.holdRequests(ACQUIRE)
    const grant = await model.granted('k', 'o')
    lines[0]?.refuse(RELEASE)
    expect(await model.settled(backend.release(grant, 0))).toBe('released')
    lines[0]?.refuse(RAISE)
    // Any answer of the node has it told what it missed.
    await model.settled(backend.inspect('k'))
    await clock.advance(1)
    expect(lines[0]?.count(RELEASE)).toBe(1 + 1)
    lines[0]?.letGo()
    await clock.advance(2 * NODE_TIMEOUT_MS)
    expect(ownersOf(model, 'k')).toBe('---')
  })
})

describe('a node of which some requests are never answered', () => {
  // One connection of a pool that leads nowhere: the others go on.
  it('is asked on, as long as it answers others', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    lines[2]?.holdRequests(CANCEL)
    for (let count = 0; count < 20; count++) {
      await model.settled(backend.cancel('lost', `${count}`.padEnd(22, '_')))
      await model.settled(backend.inspect('k'))
      await clock.advance(2 * NODE_TIMEOUT_MS)
    }
    lines[0]?.refuse()
    expect((await model.settled(model.acquire('k', 'o'))).kind).toBe('granted')
  })
})

describe('a raise', () => {
  it('that every node refuses was not carried out', async () => {
    const model = await openModel(3)
    for (const line of model.lines) line.refuse(RAISE)
    const raising = model.backend.raise('k', 5n)
    await expect(model.settled(raising)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })

  it('that one node has carried out may be the one of all', async () => {
    const model = await openModel(3)
    for (const line of model.lines.slice(1)) line.refuse(RAISE)
    const raising = model.backend.raise('k', 5n)
    await expect(model.settled(raising)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  })
})
