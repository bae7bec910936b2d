import { describe, expect, it } from 'vitest'
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import { CANCEL } from '../../../src/backends/redlock/scripts/cancel.ts'
import { FACTS, INSPECT } from '../../../src/backends/redlock/scripts/look.ts'
import { PROBE } from '../../../src/backends/redlock/scripts/probe.ts'
import { RELEASE, REST } from '../../../src/backends/redlock/scripts/release.ts'
import type { LockError } from '../../../src/core/errors.ts'
import {
  NODE_TIMEOUT_MS,
  openModel,
  ownersOf,
  type RedlockModel,
} from '../../support/redlock-model.ts'

/** What each of many calls ended with; nobody waits for them. */
function outcomes(model: RedlockModel, count: number, start = 0): string[] {
  const all: string[] = []
  for (let index = 0; index < count; index++) {
    const name = `${start + index}`
    model.acquire(name, name).then(
      ({ kind }) => void all.push(kind),
      ({ code }: LockError) => void all.push(code),
    )
  }
  return all
}

async function cancelAll(model: RedlockModel, count: number): Promise<void> {
  for (let index = 0; index < count; index++) {
    await model.settled(model.backend.cancel('c', `${index}`.padEnd(22, '_')))
  }
}

/** Two nodes have to answer now, this one and the second. */
async function isWaitedFor(model: RedlockModel, place: 0 | 2, name: string): Promise<boolean> {
  const other = model.lines[2 - place]
  other?.refuse(ACQUIRE)
  const asking = model.acquire(name, name).then(({ kind }) => kind === 'granted')
  const result = await model.settled(asking.catch(() => false))
  other?.open()
  await model.clock.advance(1000)
  await model.settled(model.acquire(`${name} again`, `${name} x`).catch(() => undefined))
  return result
}

describe('a node that is silent', () => {
  it('has 8 requests and 4 probes unanswered, however much is asked', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.holdRequests()
    for (let turn = 0; turn < 20; turn++) {
      const all = outcomes(model, 10, turn * 10)
      await clock.advance(NODE_TIMEOUT_MS * 2)
      expect(all).toEqual(Array.from({ length: 10 }, () => 'granted'))
    }
    await clock.advance(20_000)
    expect(lines[2]?.keptCount).toBe(8 + 4)
  })

  it('is waited for once, by all that had asked by then', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[0]?.refuse(ACQUIRE)
    lines[2]?.holdRequests()
    const first = outcomes(model, 6)
    await clock.advance(NODE_TIMEOUT_MS / 2)
    const second = outcomes(model, 6, 6)
    expect([...first, ...second]).toEqual([])
    await clock.advance(NODE_TIMEOUT_MS / 2 + 10)
    // The last four had not been sent.
    expect([first.length, second.length]).toEqual([6, 6])
    const third = outcomes(model, 6, 12)
    await clock.advance(0)
    expect(third).toHaveLength(6)
  })

  it('is waited for again as soon as it has answered', async () => {
    const model = await openModel(3)
    model.lines[2]?.holdRequests()
    await model.granted('k', 'o')
    await model.clock.advance(2 * NODE_TIMEOUT_MS)
    expect(await isWaitedFor(model, 2, 'before')).toBe(false)
    model.lines[2]?.letGo()
    await model.clock.advance(1)
    expect(await isWaitedFor(model, 2, 'after')).toBe(true)
  })

  it('is waited for again when a probe is answered, though the client has forgotten the rest', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.holdRequests()
    outcomes(model, 10)
    await clock.advance(2 * NODE_TIMEOUT_MS)
    lines[2]?.open()
    await clock.advance(1100)
    expect(lines[2]?.count(PROBE)).toBeGreaterThan(0)
    expect(await isWaitedFor(model, 2, 'after')).toBe(true)
  })

  it('is none whose answer comes behind the timer, as after a block of the event loop', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[0]?.refuse(ACQUIRE)
    lines[2]?.holdReplies(ACQUIRE)
    const asking = model.acquire('k', 'o')
    await clock.advance(NODE_TIMEOUT_MS + 2)
    lines[2]?.letGo()
    expect((await model.settled(asking)).kind).toBe('granted')
  })

  it('is none that answers others meanwhile', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.holdReplies(ACQUIRE)
    await model.granted('k', 'o')
    await clock.advance(NODE_TIMEOUT_MS / 2)
    await model.settled(model.backend.inspect('k'))
    lines[2]?.open()
    await clock.advance(NODE_TIMEOUT_MS / 2 + 10)
    lines[0]?.refuse(ACQUIRE)
    expect((await model.settled(model.acquire('other', 'p'))).kind).toBe('granted')
  })

  it('keeps no listing from its end', async () => {
    const model = await openModel(3)
    await model.granted('k', 'o')
    model.lines[2]?.holdRequests()
    const names: string[] = []
    const listing = async (): Promise<void> => {
      for await (const { lockName } of model.backend.list('', 10)) names.push(lockName)
    }
    await model.settled(listing())
    expect(names).toEqual(['k'])
  })
})

describe('a node that is slower than it is asked', () => {
  it('has 8 requests under way to begin with, and more once it has kept up', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.holdReplies(ACQUIRE)
    const first = outcomes(model, 20)
    await clock.advance(1)
    expect([lines[2]?.keptCount, first.length]).toEqual([8, 20])
    lines[2]?.letGo()
    await clock.advance(1)
    expect(lines[2]?.count(ACQUIRE)).toBeGreaterThanOrEqual(20)
    lines[2]?.holdReplies(ACQUIRE)
    outcomes(model, 40, 20)
    await clock.advance(1)
    // One more for each answer behind which others waited.
    expect(lines[2]?.keptCount).toBe(8 + 6)
    // Found silent, it begins anew.
    await clock.advance(2 * NODE_TIMEOUT_MS)
    lines[2]?.letGo()
    await clock.advance(1)
    lines[2]?.holdReplies(ACQUIRE)
    outcomes(model, 40, 60)
    await clock.advance(1)
    expect(lines[2]?.keptCount).toBe(8)
  })

  it('counts what was silent and has been answered since no more', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    lines[2]?.holdRequests(CANCEL)
    for (let count = 0; count < 12; count++) {
      await model.settled(backend.cancel('lost', `${count}`.padEnd(22, '_')))
      await model.settled(backend.inspect('k'))
      await clock.advance(2 * NODE_TIMEOUT_MS)
    }
    lines[2]?.letGo()
    await clock.advance(1)
    lines[2]?.holdReplies(ACQUIRE)
    outcomes(model, 40)
    await clock.advance(1)
    expect(lines[2]?.keptCount).toBe(8)
  })

  it('has 10,000 that wait, and what is beyond is not sent', async () => {
    const { clock, backend } = await openModel(1)
    let refused = 0
    for (let count = 0; count < 10_050; count++) {
      backend.inspect('k').catch(({ why }) => {
        if (why === 'backlog') refused += 1
      })
    }
    await clock.advance(0)
    expect(refused).toBe(10_050 - 10_000 - 8)
  })

  it('gets the next where one has failed', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.holdReplies(INSPECT)
    for (let count = 0; count < 9; count++) model.backend.inspect(`${count}`).catch(() => undefined)
    await clock.advance(1)
    expect(lines[2]?.count(INSPECT)).toBe(8)
    lines[2]?.fail()
    await clock.advance(1)
    expect(lines[2]?.count(INSPECT)).toBe(9)
  })
})

describe('what a node is owed', () => {
  it('is told by a probe, where nobody asks anything', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    // Nodes that were new are looked at once more.
    await clock.advance(3000)
    lines[2]?.refuse()
    await cancelAll(model, 3)
    lines[2]?.open()
    await clock.advance(900)
    expect(lines[2]?.count(CANCEL)).toBe(0)
    await clock.advance(200)
    expect(lines[2]?.count(CANCEL)).toBe(3)
    await clock.advance(10_000)
    expect(lines[2]?.count(CANCEL)).toBe(3)
    expect(clock.pendingCount).toBe(0)
  })

  it('is told again though it was under way when the connection ended', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.refuse(CANCEL)
    await cancelAll(model, 3)
    lines[2]?.open()
    lines[2]?.holdRequests(CANCEL)
    await model.settled(model.backend.inspect('k'))
    await clock.advance(3000)
    expect(lines[2]?.keptCount).toBe(3)
    lines[2]?.fail()
    await clock.advance(1500)
    expect(lines[2]?.count(CANCEL)).toBe(3)
  })

  it('is told eight at a time', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.refuse(CANCEL)
    await cancelAll(model, 40)
    lines[2]?.holdReplies(CANCEL)
    lines[2]?.refuse(RELEASE)
    await clock.advance(2000)
    expect(lines[2]?.keptCount).toBe(8)
    lines[2]?.letGo()
    await clock.advance(1)
    expect(lines[2]?.count(CANCEL)).toBe(40)
  })

  it('is tried once a second where it fails, and not with each answer', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    lines[2]?.refuse(CANCEL)
    await cancelAll(model, 20)
    const before = lines[2]?.refusedCount ?? 0
    for (let turn = 0; turn < 30; turn++) {
      await model.settled(backend.inspect('k'))
      await clock.advance(100)
    }
    const tries = (lines[2]?.refusedCount ?? 0) - before
    expect(tries).toBeGreaterThan(0)
    expect(tries).toBeLessThanOrEqual(8 * 4)
    lines[2]?.open()
    await clock.advance(2000)
    expect(lines[2]?.count(CANCEL)).toBe(20)
  })

  it('is also what waited to be sent when it was found silent', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    const grant = await model.granted('k', 'o')
    await clock.advance(1)
    lines[2]?.holdRequests()
    outcomes(model, 8)
    await model.settled(backend.release(grant, 0))
    await clock.advance(2 * NODE_TIMEOUT_MS)
    expect(ownersOf(model, 'k')).toBe('--o')
    lines[2]?.letGo()
    await clock.advance(1)
    expect(ownersOf(model, 'k')).toBe('---')
  })

  it('is no rest, which would begin late', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    const grant = await model.granted('k', 'o')
    await clock.advance(1)
    lines[2]?.refuse()
    expect(await model.settled(backend.release(grant, 5000))).toBe('released')
    lines[2]?.open()
    await clock.advance(3000)
    expect(lines.map((line) => line.count(REST))).toEqual([1, 1, 0])
  })
})

describe('a connection', () => {
  it.each(['refused', 'ended'])('that was %s has its node asked what it is', async (how) => {
    const model = await openModel(3)
    const { lines, clock } = model
    const before = lines[2]?.count(FACTS) ?? 0
    if (how === 'refused') lines[2]?.refuse(ACQUIRE)
    else lines[2]?.holdReplies(ACQUIRE)
    await model.granted('k', 'o')
    if (how === 'ended') lines[2]?.fail()
    lines[2]?.open()
    await clock.advance(1000)
    await model.granted('other', 'p')
    expect(lines[2]?.count(FACTS)).toBe(before + 1)
  })
})

describe('a node that cannot be reached', () => {
  it('is asked what it is four times a second at most', async () => {
    const model = await openModel(3)
    const { lines, clock } = model
    lines[2]?.refuse()
    await model.granted('k', 'o')
    const before = lines[2]?.refusedCount ?? 0
    for (let turn = 0; turn < 100; turn++) {
      await model.granted(`${turn}`, `${turn}`)
      await clock.advance(10)
    }
    const asked = (lines[2]?.refusedCount ?? 0) - before
    expect(asked).toBeGreaterThan(0)
    expect(asked).toBeLessThanOrEqual(5)
  })
})

describe('a backend that is closed', () => {
  it('has no timer left, and sends nothing more', async () => {
    const model = await openModel(3)
    const { lines, clock, backend } = model
    const grant = await model.granted('k', 'o')
    await clock.advance(1)
    lines[2]?.holdRequests()
    await cancelAll(model, 20)
    await clock.advance(2 * NODE_TIMEOUT_MS)
    lines[1]?.holdRequests()
    const asking = model.acquire('other', 'p').catch(() => undefined)
    await clock.advance(10)
    await backend.close()
    expect(clock.pendingCount).toBe(0)
    // What is released by somebody who does not wait for it is sent, and not kept.
    backend.release(grant, 0).catch(() => undefined)
    const before = lines[2]?.count(CANCEL) ?? 0
    for (const line of lines) line.letGo()
    await asking
    await clock.advance(10_000)
    expect(lines[2]?.count(CANCEL)).toBeLessThanOrEqual(before + 8)
    expect(clock.pendingCount).toBe(0)
  })
})
