import { describe, expect, it } from 'vitest'
import { redlockInitWith } from '../../src/backends/redlock/init.ts'
import { parseMarker } from '../../src/backends/redlock/marker.ts'
import { redlockReconfigureWith } from '../../src/backends/redlock/reconfigure.ts'
import { ADMIT, CLOSE, QUARANTINE } from '../../src/backends/redlock/scripts/admission.ts'
import { redlockStatusWith } from '../../src/backends/redlock/status.ts'
import { systemSeams } from '../../src/core/seams.ts'
import type { RedisClient } from '../../src/redis.ts'
import { standOnNodes, type TestNode } from '../support/redlock-nodes.ts'

const stand = standOnNodes('abcdef')
const node = (name: string): TestNode => stand.nodes[name] as TestNode

const MAX_TTL_MS = 100
/** 1 % more, and 100 ms. */
const WAIT_MS = 201
const HIGH = 2n ** 60n

async function begin(names: string): Promise<void> {
  const options = { force: true, onEmpty: 'fresh', maxTtlMs: MAX_TTL_MS } as const
  await redlockInitWith(systemSeams, stand.clients(names), options)
  expect(await statesOf(names)).toBe([...names].map(() => 'voting').join())
}

async function statesOf(names: string): Promise<string> {
  const statuses = await redlockStatusWith(systemSeams, stand.clients(names), {})
  return statuses.map(({ state }) => state).join()
}

async function votersOf(names: string): Promise<number> {
  return (await statesOf(names)).split(',').filter((state) => state === 'voting').length
}

const WRITES = new Map([CLOSE, QUARANTINE, ADMIT].map(({ sha1, name }) => [sha1, name]))

type Write = Readonly<{ name: string; atMs: number }>

/** The one who operates, and may be killed. */
class Operator {
  readonly writes: Write[] = []
  readonly #writesMax: number

  constructor(writesMax = Number.POSITIVE_INFINITY) {
    this.#writesMax = writesMax
  }

  get isKilled(): boolean {
    return this.writes.length > this.#writesMax
  }

  async reconfigure(from: string, to: string, onWait?: (waitMs: number) => void): Promise<void> {
    const options = onWait === undefined ? {} : { onWait }
    await redlockReconfigureWith(systemSeams, this.#clients(from), this.#clients(to), options)
  }

  #clients(names: string): Record<string, RedisClient> {
    return Object.fromEntries([...names].map((name) => [name, this.#client(node(name).client)]))
  }

  #client(client: RedisClient): RedisClient {
    const { eval: run, evalsha } = client as Extract<RedisClient, { evalsha: unknown }>
    return {
      eval: (lua: string, ...rest: [number]) => run.call(client, lua, ...rest),
      evalsha: async (sha1: string, ...rest: [number]) => {
        const name = WRITES.get(sha1)
        if (name !== undefined) this.writes.push({ name, atMs: performance.now() })
        if (this.isKilled) throw new Error('killed')
        return evalsha.call(client, sha1, ...rest)
      },
    }
  }
}

/** Scripts are known everywhere, so that each request is one call. */
async function warmUp(): Promise<void> {
  for (const name of 'abcdef') {
    for (const { lua } of [CLOSE, QUARANTINE, ADMIT]) {
      await node(name).redis.script('LOAD', lua)
    }
  }
}

/** C1 and C3 at the end of a move. */
async function expectMoved(from: string, to: string): Promise<void> {
  expect(await statesOf(to)).toBe([...to].map(() => 'voting').join())
  expect(await votersOf(from)).toBe(0)
  for (const name of to) {
    for (const counter of await node(name).counters()) {
      expect(counter).toBeGreaterThanOrEqual(HIGH)
    }
  }
}

describe('a set of nodes', () => {
  it('is given up for one with another member: tokens go on above all of before', async () => {
    await begin('abc')
    await node('b').setCounters(HIGH)
    await node('c').setCounters(HIGH)
    const operator = new Operator()
    const waits: number[] = []
    await operator.reconfigure('abc', 'abd', (waitMs) => waits.push(waitMs))
    await expectMoved('abc', 'abd')
    expect(await statesOf('abc')).toBe('wrong-set,wrong-set,closed')
    expect(Math.max(...waits)).toBeGreaterThan(WAIT_MS - 50)
    const closedAtMs = operator.writes.findLast(({ name }) => name === 'close')?.atMs ?? 0
    const admittedAtMs = operator.writes.find(({ name }) => name === 'admit')?.atMs ?? 0
    expect(admittedAtMs - closedAtMs).toBeGreaterThan(WAIT_MS)
  })

  it('grows, shrinks and comes back to members that it has had before', async () => {
    await begin('abc')
    for (const name of 'abc') await node(name).setCounters(HIGH)
    await new Operator().reconfigure('abc', 'abcde')
    await expectMoved('abc', 'abcde')
    await new Operator().reconfigure('abcde', 'abd')
    await expectMoved('abcde', 'abd')
    await new Operator().reconfigure('abd', 'abc')
    await expectMoved('abd', 'abc')
    await new Operator().reconfigure('abc', 'def')
    await expectMoved('abc', 'def')
    await new Operator().reconfigure('def', 'a')
    await expectMoved('def', 'a')
  })

  it('is given up though one of its members is gone for good', async () => {
    await begin('abc')
    for (const name of 'ab') await node(name).setCounters(HIGH)
    await node('c').kill()
    await new Operator().reconfigure('abc', 'abd')
    expect(await statesOf('abd')).toBe('voting,voting,voting')
    expect((await node('d').counters())[0]).toBe(HIGH)
  })

  it('is not given up without a majority of it, and nothing is written', async () => {
    await begin('abc')
    await node('c').kill()
    await node('b').redis.flushall()
    const before = await node('a').marker()
    const asking = new Operator().reconfigure('abc', 'ade')
    await expect(asking).rejects.toThrow(/"a" is voting, "b" is empty, "c" is unreachable/)
    expect(await node('a').marker()).toBe(before)
    expect(await node('d').redis.dbsize()).toBe(0)
  })

  it('is not given up for one of which a node does not answer', async () => {
    await begin('abc')
    await node('d').kill()
    const before = await node('c').marker()
    const asking = new Operator().reconfigure('abc', 'abd')
    await expect(asking).rejects.toThrow('no answer from node "d"')
    expect(await node('c').marker()).toBe(before)
  })

  it('is not given up for nodes of somebody else, nor a second time for others', async () => {
    await begin('abc')
    await begin('def')
    const before = await stand.dump()
    await expect(new Operator().reconfigure('abc', 'abd')).rejects.toThrow(
      'node "d" of the new set is of the set d, e, f; nothing was written on it',
    )
    await expect(new Operator().reconfigure('abd', 'abe')).rejects.toThrow(
      /of the old set is of the/,
    )
    expect(await stand.dump()).toBe(before)
    const killed = new Operator(1)
    await node('f').redis.flushall()
    await expect(killed.reconfigure('abc', 'abf')).rejects.toThrow()
    const other = new Operator().reconfigure('abc', 'ab')
    await expect(other).rejects.toThrow(/node "c" of the old set was closed in favour of/)
  })

  it('with the same names is refused: nothing would tell the two apart', async () => {
    await expect(new Operator().reconfigure('abc', 'cba')).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      option: 'to',
    })
  })
})

describe.each<[string, string, number]>([
  ['abc', 'abd', 9],
  ['abc', 'abcde', 13],
])('whoever moves %s to %s', (from, to, writes) => {
  const cases = Array.from({ length: writes }, (_, count) => count)

  it.each(cases)('is killed after %i writes, and another one goes on', async (count) => {
    await warmUp()
    await begin(from)
    for (const name of from) await node(name).setCounters(HIGH)
    const killed = new Operator(count)
    await expect(killed.reconfigure(from, to)).rejects.toThrow()
    expect(killed.isKilled).toBe(true)
    const isOldOpen = (await votersOf(from)) > from.length / 2
    const isNewOpen = (await votersOf(to)) > to.length / 2
    expect(isOldOpen && isNewOpen).toBe(false)

    const other = new Operator()
    const beganAtMs = performance.now()
    await other.reconfigure(from, to)
    await expectMoved(from, to)
    // It goes by its own wait, whoever may have waited before.
    const admitted = other.writes.find(({ name }) => name === 'admit')
    if (admitted !== undefined) expect(admitted.atMs - beganAtMs).toBeGreaterThan(WAIT_MS)
    const inOrder = [...killed.writes, ...other.writes].map(({ name }) => name)
    expect(inOrder.lastIndexOf('close')).toBeLessThan(inOrder.indexOf('admit'))
  })
})

describe('during a move', () => {
  it('a second operator does the same at the same time, and both come to the end', async () => {
    await begin('abc')
    for (const name of 'abc') await node(name).setCounters(HIGH)
    await Promise.all([
      new Operator().reconfigure('abc', 'abd'),
      new Operator().reconfigure('abc', 'abd'),
    ])
    await expectMoved('abc', 'abd')
  })

  it('a new node that loses its data is waited for again', async () => {
    await begin('abc')
    for (const name of 'abc') await node(name).setCounters(HIGH)
    const operator = new Operator()
    let flushedAtMs = 0
    const losing: Promise<unknown>[] = []
    await operator.reconfigure('abc', 'abd', () => {
      if (flushedAtMs > 0) return
      flushedAtMs = performance.now()
      losing.push(node('d').redis.flushall())
    })
    await Promise.all(losing)
    await expectMoved('abc', 'abd')
    const admitted = operator.writes.find(({ name }) => name === 'admit')
    expect((admitted?.atMs ?? 0) - flushedAtMs).toBeGreaterThan(WAIT_MS + WAIT_MS)
  })

  // Restarted with older data, a member knows too little; with another one lost no majority knows all.
  it('a member that came back with its data of before is not taken for one that knows', async () => {
    await begin('abc')
    await node('b').setCounters(HIGH - 1n)
    await node('b').restart({ keepData: true })
    const operator = new Operator()
    let isLost = false
    const moving = operator.reconfigure('abc', 'abd', () => {
      if (isLost) return
      isLost = true
      node('a').redis.flushall()
    })
    await expect(moving).rejects.toThrow(
      'only 1 of 3 nodes of the old set still have their counters',
    )
    expect(await votersOf('abd')).toBe(0)
    // The operator answers for the clocks.
    const options = { force: true } as const
    const states = await redlockInitWith(systemSeams, stand.clients('abd'), options)
    expect(states.map(({ state }) => state)).toEqual(['voting', 'voting', 'voting'])
    expect((await node('d').counters())[0]).toBe(HIGH - 1n)
  })

  it('the longest TTL is never shortened, and lengthened only when asked for', async () => {
    await begin('abc')
    await new Operator().reconfigure('abc', 'abd')
    expect(parseMarker((await node('d').marker()) ?? '')?.maxTtlMs).toBe(MAX_TTL_MS)
    const longer = { maxTtlMs: 300 }
    const [from, to] = [stand.clients('abd'), stand.clients('abe')]
    await redlockReconfigureWith(systemSeams, from, to, longer)
    expect(parseMarker((await node('a').marker()) ?? '')?.maxTtlMs).toBe(300)
  })
})
