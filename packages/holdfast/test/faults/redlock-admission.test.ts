import { describe, expect, it } from 'vitest'
import { redlockInitWith } from '../../src/backends/redlock/init.ts'
import { parseMarker, setIdOf } from '../../src/backends/redlock/marker.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { openInspector, until } from '../support/redis.ts'
import {
  LONGEST_MS,
  MARKER,
  type Program,
  standOnNodes,
  type TestNode,
  WAIT_MS,
} from '../support/redlock-nodes.ts'

const stand = standOnNodes('abcde')
const node = (name: string): TestNode => stand.nodes[name] as TestNode

const all = (count: number, kind: string): string[] => Array.from({ length: count }, () => kind)

/** A set of nodes that vote, as it is long after its first use. */
async function voting(names: string, maxTtlMs = LONGEST_MS): Promise<Program> {
  const program = stand.program(names, { maxTtlMs })
  await program.pass()
  program.nowMs += maxTtlMs * 2 + WAIT_MS
  expect(await program.pass()).toEqual(all(names.length, 'voting'))
  return program
}

describe('a key prefix that no node knows', () => {
  it('is waited for: nobody can tell it from one whose nodes all lost their data', async () => {
    const program = stand.program('abc')
    expect(await program.pass()).toEqual(all(3, 'waiting'))
    program.nowMs += WAIT_MS - 1
    expect(await program.pass()).toEqual(all(3, 'waiting'))
    program.nowMs += 1
    const beganUs = BigInt(Date.now()) * 1000n
    expect(await program.pass()).toEqual(all(3, 'voting'))
    const [lowest = 0n] = (await node('a').counters()).sort()
    expect(lowest).toBeGreaterThanOrEqual(beganUs)
    expect(parseMarker((await node('b').marker()) ?? '')).toMatchObject({
      ...{ state: 'voting', setId: setIdOf(['a', 'b', 'c']), nodeCount: 3 },
      ...{ maxTtlMs: LONGEST_MS, names: ['a', 'b', 'c'], toSetId: null },
    })
  })

  it('is used at once with onEmpty fresh', async () => {
    expect(await stand.program('abc', { onEmpty: 'fresh' }).pass()).toEqual(all(3, 'voting'))
  })

  // `fresh` stays in a program's options after the first day, and then all nodes lose their data but
  // one stripe, or one node that nobody reaches.
  it('is waited for with onEmpty fresh where a node has a trace of it, or does not answer', async () => {
    await node('b').redis.set('lock:#hf:token:{07}', '5')
    expect(await stand.program('abc', { onEmpty: 'fresh' }).pass()).toEqual(all(3, 'waiting'))
    await node('b').redis.flushall()
    await node('c').kill()
    const seen = await stand.program('abc', { onEmpty: 'fresh' }).pass()
    expect(seen).toEqual(['waiting', 'waiting', 'unreachable'])
  })

  it('is for the operator with onEmpty refuse', async () => {
    const program = stand.program('abc', { onEmpty: 'refuse' })
    await program.pass()
    program.nowMs += 10 * WAIT_MS
    expect(await program.pass()).toEqual(all(3, 'waiting'))
    const options = { force: true, maxTtlMs: 100, onEmpty: 'refuse' } as const
    await node('a').redis.flushall()
    await node('b').redis.flushall()
    await node('c').redis.flushall()
    const waits: number[] = []
    const states = await redlockInitWith(systemSeams, stand.clients('abc'), {
      ...options,
      onWait: (waitMs) => waits.push(waitMs),
    })
    expect(states.map(({ state }) => state)).toEqual(all(3, 'voting'))
    expect(Math.max(...waits)).toBeGreaterThan(150)
  })

  it('works with one node alone', async () => {
    const program = stand.program('a')
    expect(await program.pass()).toEqual(['waiting'])
    program.nowMs += WAIT_MS
    expect(await program.pass()).toEqual(['voting'])
  })
})

describe('one node of three', () => {
  const lose: Readonly<Record<string, (lost: TestNode) => Promise<unknown>>> = {
    'restarted without data': (lost) => lost.restart(),
    'that was flushed': (lost) => lost.redis.flushall(),
    'restarted with data of before': (lost) => lost.restart({ keepData: true }),
  }

  it.each(Object.keys(lose))(
    '%s votes after a wait, above what the others granted',
    async (how) => {
      const program = await voting('abc')
      await node('c').setCounters(5n)
      await node('a').setCounters(2n ** 60n)
      await node('b').redis.set('lock:#hf:token:{03}', String(2n ** 61n))
      await lose[how]?.(node('c'))
      expect(await program.pass()).toEqual(['voting', 'voting', 'waiting'])
      program.nowMs += WAIT_MS - 1
      expect(await program.pass()).toEqual(['voting', 'voting', 'waiting'])
      program.nowMs += 1
      expect(await program.pass()).toEqual(all(3, 'voting'))
      const counters = await node('c').counters()
      expect(counters[3]).toBe(2n ** 61n)
      expect(counters[4]).toBe(2n ** 60n)
    },
  )

  it('keeps its counters through a restart with data, where they are above the others', async () => {
    const program = await voting('abc')
    await node('c').setCounters(2n ** 60n)
    await node('c').restart({ keepData: true })
    await program.pass()
    expect((await node('c').counters())[0]).toBe(2n ** 60n)
    program.nowMs += WAIT_MS
    await program.pass()
    expect((await node('c').counters())[0]).toBe(2n ** 60n)
  })

  // The others are read when the wait is over: a lease of before may get its token until then.
  it('gets counters as they are after the wait, not before', async () => {
    const program = await voting('abc')
    await node('c').redis.flushall()
    await program.pass()
    program.nowMs += WAIT_MS - 1
    await program.pass()
    await node('a').setCounters(2n ** 60n)
    program.nowMs += 1
    await program.pass()
    expect((await node('c').counters())[0]).toBe(2n ** 60n)
  })

  it('goes on voting at once if it keeps every write, and has no replicas', async () => {
    await voting('abc')
    await node('c').restart({ keepData: true })
    expect(await stand.program('abc', { durable: true }).pass()).toEqual(all(3, 'voting'))
    expect(await stand.program('abc').pass()).toEqual(all(3, 'voting'))
  })

  it('does not if it has a replica, which may have become the primary', async () => {
    await voting('abc')
    await node('c').restart({ keepData: true })
    const { port } = node('c').server
    await node('e').redis.call('REPLICAOF', '127.0.0.1', String(port))
    const isAttached = async (): Promise<boolean> =>
      (await node('c').redis.info('replication')).includes('connected_slaves:1')
    await until(isAttached, 'the replica is attached', 30_000)
    const seen = await stand.program('abc', { durable: true }).pass()
    expect(seen).toEqual(['voting', 'voting', 'waiting'])
  })

  // An eviction, or a DEL by hand: a counter that starts again would repeat tokens.
  it('that lost a single counter waits as soon as it is suspected', async () => {
    const program = await voting('abc')
    await node('b').redis.del('lock:#hf:token:{11}')
    expect(await program.pass()).toEqual(all(3, 'voting'))
    const { sights } = await program.outlook()
    for (const sight of sights) program.table.suspect(sight.node)
    expect(await program.pass()).toEqual(['voting', 'waiting', 'voting'])
    program.nowMs += WAIT_MS
    expect(await program.pass()).toEqual(all(3, 'voting'))
  })

  it('does not learn its counters from one that lost one itself', async () => {
    const program = await voting('abc')
    await node('b').redis.del('lock:#hf:token:{11}')
    await node('c').redis.flushall()
    await program.pass()
    program.nowMs += WAIT_MS
    expect(await program.pass()).toEqual(['voting', 'voting', 'waiting'])
    expect(await program.pass()).toEqual(['voting', 'waiting', 'waiting'])
  })
})

describe('the majority', () => {
  it('of three is waited for, all of them, and then begins above counters and clock', async () => {
    const program = await voting('abc')
    await node('a').setCounters(2n ** 60n)
    await node('b').redis.flushall()
    await node('c').redis.flushall()
    expect(await program.pass()).toEqual(['voting', 'waiting', 'waiting'])
    program.nowMs += WAIT_MS - 1
    expect(await program.pass()).toEqual(['voting', 'waiting', 'waiting'])
    program.nowMs += 1
    expect(await program.pass()).toEqual(all(3, 'voting'))
    expect((await node('b').counters())[0]).toBe(2n ** 60n)
    expect((await node('c').counters())[9]).toBe(2n ** 60n)
  })

  it('is not made up for while a node is away that may know more', async () => {
    const program = await voting('abc')
    await node('a').setCounters(2n ** 60n)
    await node('b').redis.flushall()
    await node('c').redis.flushall()
    await node('a').kill()
    expect(await program.pass()).toEqual(['unreachable', 'waiting', 'waiting'])
    program.nowMs += 10 * WAIT_MS
    expect(await program.pass()).toEqual(['unreachable', 'waiting', 'waiting'])
    await node('a').restart({ keepData: true })
    // What it had in memory is gone with the kill; it is waited for as well.
    expect(await program.pass()).toEqual(all(3, 'waiting'))
    program.nowMs += WAIT_MS
    expect(await program.pass()).toEqual(all(3, 'voting'))
  })

  it('of five is none that two have lost: three others know every token', async () => {
    const program = await voting('abcde')
    await node('b').setCounters(2n ** 60n)
    await node('d').restart()
    await node('e').redis.flushall()
    expect(await program.pass()).toEqual(['voting', 'voting', 'voting', 'waiting', 'waiting'])
    program.nowMs += WAIT_MS
    expect(await program.pass()).toEqual(all(5, 'voting'))
    expect((await node('d').counters())[0]).toBe(2n ** 60n)
    expect((await node('e').counters())[63]).toBe(2n ** 60n)
  })

  it('of five is not there with two that vote and one away', async () => {
    const program = await voting('abcde')
    for (const name of ['c', 'd']) await node(name).redis.flushall()
    await node('e').kill()
    await program.pass()
    program.nowMs += WAIT_MS
    const seen = await program.pass()
    expect(seen).toEqual(['voting', 'voting', 'waiting', 'waiting', 'unreachable'])
  })

  it('is let in without a node that is gone for good when the operator says so', async () => {
    await voting('abc', 100)
    await node('a').setCounters(2n ** 60n)
    await node('b').redis.flushall()
    await node('c').kill()
    const options = { force: true, maxTtlMs: 100 } as const
    const states = await redlockInitWith(systemSeams, stand.clients('abc'), options)
    expect(states.map(({ state }) => state)).toEqual(['voting', 'voting', 'unreachable'])
    expect((await node('b').counters())[0]).toBe(2n ** 60n)
    await node('b').kill()
    const asking = redlockInitWith(systemSeams, stand.clients('abc'), options)
    await expect(asking).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  })
})

describe('a wait', () => {
  it('of one program counts for none that has not waited itself', async () => {
    const early = await voting('abc')
    const late = stand.program('abc')
    await node('c').redis.flushall()
    await early.pass()
    late.nowMs = 1
    early.nowMs += WAIT_MS - 1
    // Somebody whose clock is far ahead has not waited for that.
    late.nowMs += 10 * WAIT_MS
    expect(await late.pass()).toEqual(['voting', 'voting', 'waiting'])
    late.nowMs += WAIT_MS - 1
    expect(await late.pass()).toEqual(['voting', 'voting', 'waiting'])
    early.nowMs += 1
    expect(await early.pass()).toEqual(all(3, 'voting'))
    expect(await late.pass()).toEqual(all(3, 'voting'))
  })

  it('begins again when the node is lost again', async () => {
    const program = await voting('abc')
    await node('c').redis.flushall()
    await program.pass()
    program.nowMs += WAIT_MS - 1
    await node('c').restart()
    await program.pass()
    program.nowMs += WAIT_MS - 1
    expect(await program.pass()).toEqual(['voting', 'voting', 'waiting'])
    program.nowMs += 1
    expect(await program.pass()).toEqual(all(3, 'voting'))
  })

  // The other one let the node in meanwhile, it voted, and was lost once more.
  it('counts for nothing when the node has voted and was lost since', async () => {
    const slow = await voting('abc')
    const quick = stand.program('abc')
    await node('c').redis.flushall()
    await quick.pass()
    await slow.pass()
    quick.nowMs += WAIT_MS
    expect(await quick.pass()).toEqual(all(3, 'voting'))
    await node('c').redis.flushall()
    await quick.pass()
    slow.nowMs += WAIT_MS
    expect(await slow.pass()).toEqual(['voting', 'voting', 'waiting'])
  })

  it('is as long as the longest TTL in any marker, also in one that is seen later', async () => {
    const program = await voting('abc')
    await node('c').redis.flushall()
    await program.pass()
    program.nowMs += WAIT_MS
    const longer = ((await node('a').marker()) ?? '').replace(/:00010000:/, ':00020000:')
    await node('a').redis.set(MARKER, longer)
    expect(await program.pass()).toEqual(['voting', 'voting', 'waiting'])
    program.nowMs += WAIT_MS - 101
    expect(await program.pass()).toEqual(['voting', 'voting', 'waiting'])
    program.nowMs += 1
    expect(await program.pass()).toEqual(all(3, 'voting'))
  })

  it('and the marker take the longest TTL of the prefix, not that of the program', async () => {
    await voting('abc', 2 * LONGEST_MS)
    await node('c').redis.flushall()
    const short = stand.program('abc', { maxTtlMs: 100 })
    await short.pass()
    expect(parseMarker((await node('c').marker()) ?? '')?.maxTtlMs).toBe(2 * LONGEST_MS)
    short.nowMs += WAIT_MS
    expect(await short.pass()).toEqual(['voting', 'voting', 'waiting'])
    short.nowMs += WAIT_MS
    expect(await short.pass()).toEqual(all(3, 'voting'))
  })
})

describe('nodes of another set', () => {
  it.each(['abd', 'ab', 'abcde', 'a'])(
    'are refused to %s, and nothing is written',
    async (names) => {
      await voting('abc')
      const before = await stand.dump()
      const program = stand.program(names)
      const seen = await program.pass()
      expect(seen).toContain('wrong-set')
      program.nowMs += 10 * WAIT_MS
      expect(await program.pass()).toEqual(seen)
      expect(await stand.dump()).toBe(before)
      const options = { force: true } as const
      const asking = redlockInitWith(systemSeams, stand.clients(names), options)
      await expect(asking).rejects.toThrow(/node "a" belongs to other nodes.* the set a, b, c/)
      expect(await stand.dump()).toBe(before)
    },
  )

  it('are told apart from text that is no marker, which is left alone', async () => {
    await voting('abc')
    await node('b').redis.set(MARKER, 'mine')
    expect(await stand.program('abc').pass()).toEqual(['voting', 'wrong-set', 'voting'])
    expect(await node('b').marker()).toBe('mine')
  })

  // Three connections to one server look like a quorum, and are none.
  it('is what two names of one server are taken for: nothing is written', async () => {
    const { client } = node('a')
    const asking = redlockInitWith(
      systemSeams,
      {
        a: client,
        b: { eval: client.eval.bind(client), evalsha: Reflect.get(client, 'evalsha').bind(client) },
        c: node('c').client,
      } as never,
      { force: true },
    )
    await expect(asking).rejects.toThrow('nodes "a" and "b" are one and the same server')
    expect(await node('a').redis.dbsize()).toBe(0)
    expect(await node('c').redis.dbsize()).toBe(0)
  })
})

describe('a node whose user may not run INFO', () => {
  it('does not vote, and the right is asked for', async () => {
    const admin = await openInspector(node('a').server.port)
    await admin.call('ACL', 'SETUSER', 'default', '-info')
    const [sight] = (await stand.program('a').outlook()).sights
    await admin.call('ACL', 'SETUSER', 'default', '+info')
    admin.disconnect()
    expect(sight).toMatchObject({ kind: 'unreachable', error: { why: 'no-permission' } })
    expect(await node('a').redis.dbsize()).toBe(0)
  })
})
