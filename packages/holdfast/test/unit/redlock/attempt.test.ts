import { describe, expect, it } from 'vitest'
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import { CANCEL } from '../../../src/backends/redlock/scripts/cancel.ts'
import { FACTS } from '../../../src/backends/redlock/scripts/look.ts'
import { RAISE_RECORDED } from '../../../src/backends/redlock/scripts/raise.ts'
import { RELEASE } from '../../../src/backends/redlock/scripts/release.ts'
import { markerKey } from '../../../src/wire/keys.ts'
import {
  loseEntry,
  NODE_TIMEOUT_MS,
  openModel,
  ownersOf,
  type RedlockModel,
  setCounter,
  setLife,
} from '../../support/redlock-model.ts'

const TTL_MS = 10_000

/** Counters so far above the clock that each node grants the next of its own. */
function setCounters(model: RedlockModel, lockName: string, ...more: bigint[]): bigint {
  const base = BigInt(model.clock.wallMs()) * 1000n + 1_000_000n
  for (const [place, one] of more.entries()) setCounter(model, place, lockName, base + one)
  return base
}

/** How often a node was asked for something since. */
function counter(model: RedlockModel) {
  const scripts = [ACQUIRE, RAISE_RECORDED, RELEASE, CANCEL]
  const counts = (): number[][] =>
    model.lines.map((line) => scripts.map((script) => line.count(script)))
  const before = counts()
  return (place: number) => {
    const [acquires, raises, releases, cancels] = (counts()[place] ?? []).map(
      (count, index) => count - (before[place]?.[index] ?? 0),
    )
    return { acquires, raises, releases, cancels }
  }
}

/** A rival has the first nodes, so that an attempt of another is refused. */
async function taken(model: RedlockModel, lockName: string, away = 2): Promise<void> {
  model.lines[away]?.refuse(ACQUIRE)
  await model.granted(lockName, 'rival')
  model.lines[away]?.open()
  // A node whose connection failed is asked what it is before it votes again.
  await model.clock.advance(1000)
  await model.settled(model.acquire('other', 'x'))
}

describe('a second round', () => {
  it('follows another if a node answers late with a larger token', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    const base = setCounters(model, 'k', 1000n, 5000n, 9000n)
    lines[2]?.holdReplies(ACQUIRE)
    lines[0]?.holdReplies(RAISE_RECORDED)
    const asking = model.acquire('k', 'o')
    await clock.advance(2 * NODE_TIMEOUT_MS)
    lines[2]?.letGo()
    await clock.advance(1)
    loseEntry(model, 'k', 0)
    setCounter(model, 0, 'k', base)
    lines[0]?.fail()
    const result = await model.settled(asking)
    expect(result).toMatchObject({ kind: 'granted', grant: { fencingToken: base + 9001n } })
  })

  it('does not count a node that may have forgotten it meanwhile', async () => {
    const model = await openModel(5)
    const { lines, nodes, clock } = model
    const base = setCounters(model, 'k', 1000n, 5000n, 1000n, 0n, 1000n)
    lines[2]?.holdReplies(ACQUIRE)
    lines[3]?.refuse(ACQUIRE)
    for (const place of [0, 4]) lines[place]?.holdRequests(RAISE_RECORDED)
    const asking = model.acquire('k', 'o')
    await clock.advance(1.5 * NODE_TIMEOUT_MS)
    nodes[0]?.keys.remove(markerKey('lock:'), model.nowMs(0))
    lines[0]?.letGo()
    await clock.advance(0)
    lines[2]?.letGo()
    await clock.advance(0)
    lines[4]?.letGo()
    const result = await model.settled(asking)
    // The first node's vote would have made a quorum for 1001.
    expect(result).toMatchObject({ kind: 'granted', grant: { fencingToken: base + 5001n } })
  })

  it('asks nobody that granted nothing, and tells nobody of the end that has lost it', async () => {
    const model = await openModel(5)
    const { lines, clock, backend } = model
    setCounters(model, 'k', 1000n, 3000n, 5000n, 5000n, 0n)
    lines[4]?.refuse(ACQUIRE)
    lines[0]?.holdRequests(RAISE_RECORDED)
    const asked = counter(model)
    const asking = model.acquire('k', 'o')
    await clock.advance(1)
    loseEntry(model, 'k', 0)
    lines[0]?.letGo()
    const result = await model.settled(asking)
    if (result.kind !== 'granted') throw new Error(result.kind)
    expect([0, 1, 2, 3, 4].map((place) => asked(place).raises)).toEqual([1, 1, 0, 0, 0])
    await model.settled(backend.release(result.grant, 0))
    await clock.advance(1)
    expect([0, 1, 2, 3, 4].map((place) => asked(place).releases)).toEqual([0, 1, 1, 1, 0])
    expect([0, 1, 2, 3, 4].map((place) => asked(place).cancels)).toEqual([0, 0, 0, 0, 0])
  })
})

describe('a repeat of an acquire', () => {
  it('lasts for what is left on a quorum of nodes', async () => {
    const model = await openModel(3)
    const first = await model.granted('k', 'o')
    await model.clock.advance(1000)
    setLife(model, 0, 'k', 2 * TTL_MS)
    const again = await model.granted('k', 'o')
    expect(again).toEqual({ ...first, sentAtMs: first.sentAtMs + 1000, ttlMs: TTL_MS - 1000 })
  })
})

describe('a refusal', () => {
  it('says when a quorum can be free, and who has the largest token', async () => {
    const model = await openModel(3)
    await taken(model, 'k', 0)
    setLife(model, 1, 'k', 4000)
    const fencingToken = BigInt(model.values('k')[1]?.split(':')[2] ?? '')
    const refused = await model.settled(model.acquire('k', 'o'))
    const holder = { host: 'test', pid: 1 }
    expect(refused).toMatchObject({ kind: 'held', holder, fencingToken, retryAfterMs: 4000 })
  })

  it('where votes were split is never one to be tried again at once', async () => {
    const model = await openModel(3)
    for (const [place, rival] of ['p', 'q'].entries()) {
      for (const [other, line] of model.lines.entries()) if (other !== place) line.refuse(ACQUIRE)
      await model.settled(model.acquire('k', rival)).catch(() => undefined)
      // What was granted is taken back, so it is put there again.
      const token = String(1000 + place).padStart(19, '0')
      const value = `hf1:${rival.padEnd(22, '_')}:${token}:{"s":1,"h":"${rival}","p":${place}}`
      const expiresAtMs = model.nowMs(place) + 5000
      await model.clock.advance(100)
      model.nodes[place]?.keys.put('lock:k', { type: 'string', value, expiresAtMs })
      for (const line of model.lines) line.open()
    }
    await model.clock.advance(1000)
    await model.settled(model.acquire('other', 'x'))
    for (const place of [0, 1]) setLife(model, place, 'k', 3)
    const result = await model.settled(model.acquire('k', 'o'))
    expect(result).toMatchObject({ kind: 'held', retryAfterMs: 10, fencingToken: 1001n })
    expect(result).toMatchObject({ holder: { host: 'q', pid: 1 } })
  })
})

describe('a node', () => {
  it('that refused to be asked has nothing that would have to be taken back', async () => {
    const model = await openModel(3)
    const asked = counter(model)
    model.lines[0]?.refuse(ACQUIRE)
    const grant = await model.granted('k', 'o')
    await model.settled(model.backend.release(grant, 0))
    await model.clock.advance(1)
    expect(asked(0)).toEqual({ acquires: 0, raises: 0, releases: 0, cancels: 0 })
  })

  it('whose connection ended is asked for no vote before it has said what it is', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.refuse(ACQUIRE)
    await model.granted('k', 'o')
    lines[2]?.open()
    lines[2]?.holdRequests(FACTS)
    await clock.advance(1000)
    const asked = counter(model)
    await model.granted('other', 'p')
    expect(asked(2).acquires).toBe(0)
    lines[2]?.letGo()
    await clock.advance(1)
    await model.granted('another', 'q')
    expect(asked(2).acquires).toBe(1)
  })

  it('that is behind is not sent what nobody waits for any more', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    await taken(model, 'k')
    await clock.advance(10)
    lines[2]?.holdReplies(ACQUIRE)
    for (let count = 0; count < 8; count++) await model.granted(`${count}`, 'p')
    const asked = counter(model)
    expect((await model.settled(model.acquire('k', 'o'))).kind).toBe('held')
    lines[2]?.letGo()
    await clock.advance(1)
    expect(asked(2)).toEqual({ acquires: 0, raises: 0, releases: 0, cancels: 0 })
  })
})

describe('a grant that comes behind its own end', () => {
  it('is taken back although the release has found nothing', async () => {
    const model = await openModel(3)
    const { lines, backend, clock } = model
    lines[0]?.holdRequests(ACQUIRE)
    lines[0]?.holdReplies(RELEASE)
    const grant = await model.granted('k', 'o')
    expect(await model.settled(backend.release(grant, 0))).toBe('released')
    lines[0]?.letRequestsGo()
    await clock.advance(1)
    expect(ownersOf(model, 'k')).toBe('o--')
    lines[0]?.letGo()
    await clock.advance(1)
    expect(ownersOf(model, 'k')).toBe('---')
  })

  it('is kept away by a tombstone where the connection ended under the attempt', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    await taken(model, 'k')
    lines[2]?.holdRequests(ACQUIRE)
    const asked = counter(model)
    expect((await model.settled(model.acquire('k', 'o'))).kind).toBe('held')
    lines[2]?.fail()
    await clock.advance(1)
    expect(asked(2)).toMatchObject({ releases: 0, cancels: 1 })
  })
})

describe('a call', () => {
  it('that meets a bug of the client ends with that, and not with a lost quorum', async () => {
    const model = await openModel(3)
    for (const line of model.lines) line.failWith(new TypeError('no such method'), ACQUIRE)
    await expect(model.settled(model.acquire('k', 'o'))).rejects.toThrow(TypeError)
  })

  it.each([
    ['down', 'down', "Stream isn't writeable and enableOfflineQueue options is false"],
    ['no-quorum', 'of reasons of their own', 'OOM command not allowed'],
  ])('without a quorum fails with %s, where the nodes are %s', async (why, _, message) => {
    const model = await openModel(3)
    model.lines[0]?.refuse(ACQUIRE)
    model.lines[1]?.failWith(new Error(message), ACQUIRE)
    await expect(model.settled(model.acquire('k', 'o'))).rejects.toMatchObject({ why })
  })

  it('that was decided says of a node that has not answered that it was not heard', async () => {
    const model = await openModel(3)
    await taken(model, 'k')
    model.lines[2]?.holdReplies(ACQUIRE)
    const result = await model.settled(model.acquire('k', 'o'))
    const words = 'the others had decided before it answered'
    expect(result).toMatchObject({
      votes: [
        { node: 'a', answer: 'held' },
        { node: 'b', answer: 'held' },
        { node: 'c', answer: 'failed', cause: { code: 'OUTCOME_UNKNOWN', message: words } },
      ],
    })
  })
})
