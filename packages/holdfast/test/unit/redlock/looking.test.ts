import { describe, expect, it } from 'vitest'
import { INSPECT, LIST } from '../../../src/backends/redlock/scripts/look.ts'
import { PROCLAIM } from '../../../src/backends/redlock/scripts/proclaim.ts'
import { TOKEN_MAX } from '../../../src/core/token.ts'
import {
  loseEntry,
  NODE_TIMEOUT_MS,
  openModel,
  type RedlockModel,
  requestOf,
  setLife,
} from '../../support/redlock-model.ts'

const TTL_MS = 10_000

async function namesOf(model: RedlockModel, limit = 10): Promise<string[]> {
  const names: string[] = []
  const listing = async (): Promise<string[]> => {
    for await (const { lockName } of model.backend.list('', limit)) names.push(lockName)
    return names.sort()
  }
  return model.settled(listing())
}

/** Another token or value of the same owner on one node. */
function rewrite(model: RedlockModel, place: number, change: (value: string) => string): void {
  const value = change(model.values('k')[place] ?? '')
  const expiresAtMs = model.nowMs(place) + TTL_MS
  model.nodes[place]?.keys.put('lock:k', { type: 'string', value, expiresAtMs })
}

describe('a lock', () => {
  it('that a minority keeps is none, in an inspect and in a listing', async () => {
    const model = await openModel(3)
    await model.granted('k', 'o')
    await model.granted('both', 'p')
    await model.clock.advance(1)
    loseEntry(model, 'k', 0, 2)
    expect(await model.settled(model.backend.inspect('k'))).toBeNull()
    expect(await namesOf(model)).toEqual(['both'])
    loseEntry(model, 'both', 1)
    expect(await namesOf(model)).toEqual(['both'])
  })

  it('is shown with the life that a quorum gives it, and the token that most recorded', async () => {
    const model = await openModel(3)
    const grant = await model.granted('k', 'o')
    await model.clock.advance(1)
    rewrite(model, 0, (value) => value.replace(/:\d{19}:/, ':9000000000000000000:'))
    for (const [place, lifeMs] of [9000, 4000, 8000].entries()) setLife(model, place, 'k', lifeMs)
    const info = await model.settled(model.backend.inspect('k'))
    expect(info).toMatchObject({ fencingToken: grant.fencingToken, remainingMs: 8000 })
  })

  it('is shown with the latest value that was proclaimed, which may be on one node alone', async () => {
    const model = await openModel(3)
    const { lines, backend } = model
    const grant = await model.granted('k', 'o')
    await model.settled(backend.proclaim?.(grant, 'first') ?? Promise.resolve())
    await model.clock.advance(1)
    for (const line of lines.slice(0, 2)) line.refuse(PROCLAIM)
    const second = model.settled(backend.proclaim?.(grant, 'second') ?? Promise.resolve())
    await expect(second).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(await model.settled(backend.inspect('k'))).toMatchObject({
      holder: { value: 'second' },
    })
    for (const line of lines) line.open()
    // The next renewal tells it again.
    await model.settled(backend.renew(grant, TTL_MS))
    await model.clock.advance(1)
    for (const value of model.values('k')) expect(value).toContain('"v":"second"')
  })

  it('is listed up to the limit', async () => {
    const model = await openModel(3)
    for (const name of ['x', 'y', 'z']) await model.granted(name, name)
    expect(await namesOf(model, 2)).toHaveLength(2)
  })

  // The accident: SCAN may tell a key twice, and one node is taken for two.
  it('that one node tells twice is on one node all the same', async () => {
    const model = await openModel(3)
    await model.granted('k', 'o')
    await model.clock.advance(1)
    loseEntry(model, 'k', 1, 2)
    model.lines[0]?.alter(LIST, (reply) => {
      const [next, ...fields] = reply as string[]
      expect(fields).toContain('k')
      return [next, ...fields, ...fields]
    })
    expect(await namesOf(model)).toEqual([])
  })

  it('is told of by a quorum, or the call fails', async () => {
    const model = await openModel(3)
    await model.granted('k', 'o')
    for (const line of model.lines.slice(1)) line.refuse(LIST, INSPECT)
    await expect(namesOf(model)).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    const inspecting = model.settled(model.backend.inspect('k'))
    await expect(inspecting).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })
})

describe('a raise', () => {
  it('is made of nodes that are let vote meanwhile', async () => {
    const model = await openModel(3)
    await model.clock.advance(2000)
    for (const [place, node] of model.nodes.entries()) {
      for (const [key] of node.keys.all(model.nowMs(place))) {
        node.keys.remove(key, model.nowMs(place))
      }
    }
    const token = BigInt(model.clock.wallMs()) * 1000n + 50_000_000n
    await model.settled(model.backend.raise('k', token))
    const grant = await model.granted('k', 'o')
    expect(grant.fencingToken).toBeGreaterThan(token)
  })

  it('leaves room for a grant', async () => {
    const { backend } = await openModel(1)
    await expect(backend.raise('k', TOKEN_MAX)).rejects.toMatchObject({
      ...{ code: 'INVALID_ARGUMENT', option: 'fencingTokenMin' },
    })
  })
})

describe('tombstones', () => {
  it('are as many as may be, and then nothing is granted, and still undone', async () => {
    const model = await openModel(3, { limits: { tombstonesMax: 2 } })
    const { lines, backend, clock } = model
    for (const owner of ['p', 'q']) {
      await model.settled(backend.cancel('k', owner.padEnd(22, '_')))
    }
    const asking = model.settled(backend.tryAcquire(requestOf('k', 'o', TTL_MS)))
    await expect(asking).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'backlog' })
    await model.settled(backend.cancel('k', 'r'.padEnd(22, '_')))
    await clock.advance(100_000 + NODE_TIMEOUT_MS)
    for (const line of lines) line.open()
    expect((await model.settled(model.acquire('k', 's'))).kind).toBe('granted')
  })
})

describe('a proclaimed value', () => {
  const numbersOf = (model: RedlockModel): (string | undefined)[] =>
    model.values('k').map((value) => /"n":(\d+),"v":"\w+"/.exec(value ?? '')?.[0])

  it('has a number above the last one’s, in the same millisecond too, and is told once', async () => {
    const model = await openModel(3)
    const { lines, backend } = model
    const grant = await model.granted('k', 'o')
    const clockUs = model.clock.wallMs() * 1000
    await model.settled(backend.proclaim?.(grant, 'a') ?? Promise.resolve())
    await model.settled(backend.proclaim?.(grant, 'b') ?? Promise.resolve())
    await model.clock.advance(1)
    const newest = `"n":${clockUs + 1},"v":"b"`
    expect(numbersOf(model)).toEqual([newest, newest, newest])
    await model.settled(backend.renew(grant, TTL_MS))
    await model.clock.advance(1)
    expect(lines.map((line) => line.count(PROCLAIM))).toEqual([2, 2, 2])
  })

  it('that comes behind a later one is superseded, and not refused', async () => {
    const model = await openModel(3)
    const { lines, backend, clock } = model
    const grant = await model.granted('k', 'o')
    for (const line of lines) line.holdRequests(PROCLAIM)
    const first = backend.proclaim?.(grant, 'a')
    await clock.advance(1)
    for (const line of lines) line.open()
    await model.settled(backend.proclaim?.(grant, 'b') ?? Promise.resolve())
    for (const line of lines) line.letGo()
    expect(await model.settled(first ?? Promise.resolve())).toBe('proclaimed')
    for (const value of model.values('k')) expect(value).toContain('"v":"b"')
  })

  it('of a process that did not acquire the lease goes on above those of before', async () => {
    const model = await openModel(3)
    const { backend, clock } = model
    const grant = await model.granted('k', 'o')
    await model.settled(backend.proclaim?.(grant, 'a') ?? Promise.resolve())
    await clock.advance(1)
    const values = model.values('k')
    loseEntry(model, 'k', 1, 2)
    expect((await model.settled(backend.renew(grant, TTL_MS))).kind).toBe('lost')
    for (const place of [1, 2]) rewrite(model, place, () => values[place] ?? '')
    await model.settled(backend.proclaim?.(grant, 'b') ?? Promise.resolve())
    await clock.advance(1)
    for (const value of model.values('k')) expect(value).toContain('"v":"b"')
  })
})
