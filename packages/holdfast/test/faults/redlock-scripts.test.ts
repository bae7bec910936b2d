/** What a comparison with a model does not show of a Redlock's scripts: servers, rights, memory, widths. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { ACQUIRE } from '../../src/backends/redlock/scripts/acquire.ts'
import {
  ADMIT,
  ADOPT_RUN,
  CLOSE,
  COUNTERS,
  QUARANTINE,
  STATE,
} from '../../src/backends/redlock/scripts/admission.ts'
import { CANCEL } from '../../src/backends/redlock/scripts/cancel.ts'
import { EXTEND } from '../../src/backends/redlock/scripts/extend.ts'
import { INSPECT, LIST } from '../../src/backends/redlock/scripts/look.ts'
import { PROCLAIM } from '../../src/backends/redlock/scripts/proclaim.ts'
import { RAISE, RAISE_RECORDED } from '../../src/backends/redlock/scripts/raise.ts'
import { RELEASE, REST } from '../../src/backends/redlock/scripts/release.ts'
import { REPAIR } from '../../src/backends/redlock/scripts/repair.ts'
import { REVOKE } from '../../src/backends/redlock/scripts/revoke.ts'
import type { RedisScript } from '../../src/clients/redis.ts'
import { until } from '../support/redis.ts'

const SET = 'S'.repeat(22)
const INC = 'i'.repeat(22)
const OWNER = 'O'.repeat(22)
const NEXT = 'N'.repeat(22)
const MARK = `hf1:${OWNER}:`
const MARKER = 'lock:#hf:marker'
const LOCK = 'lock:a'
const WANT = 'lock:#hf:want:a'
const TOMBSTONES = 'lock:#hf:cancel:'
const COUNTER_KEYS = Array.from({ length: 64 }, (_, stripe) => {
  return `lock:#hf:token:{${String(stripe).padStart(2, '0')}}`
})
const COUNTER = COUNTER_KEYS[0] ?? ''
const METADATA = ',"h":"host","p":1}'
/** The longest that a marker has room for. */
const NODES = Array.from({ length: 99 }, (_, node) => `${node}`.padStart(64, 'n')).join(',')

let server: RedisServer
let redis: Redis

beforeAll(async () => {
  server = await startRedis()
  redis = new Redis(server.port, '127.0.0.1')
  redis.on('error', () => undefined)
})

beforeEach(async () => {
  await redis.flushall()
})

afterAll(async () => {
  redis?.disconnect()
  await server?.stop()
})

function run(
  script: RedisScript,
  keys: string[],
  args: string[] = [],
  client: Redis = redis,
): Promise<unknown> {
  return client.eval(script.lua, keys.length, ...keys, ...args)
}

async function admitted(longest = '60000', floor = '1'): Promise<void> {
  const keys = [MARKER, ...COUNTER_KEYS]
  await run(QUARANTINE, keys, [INC, SET, '99', longest, NODES, ''])
  const marker = await run(ADMIT, keys, [INC, '', ...COUNTER_KEYS.map(() => floor)])
  expect(String(marker).slice(0, 7)).toBe('hfm1:v:')
}

function acquire(owner = OWNER, ttl = '30000', runId = '', client = redis): Promise<unknown> {
  const keys = [LOCK, TOMBSTONES + owner, COUNTER, MARKER]
  return run(ACQUIRE, keys, [ttl, SET, runId, '1', METADATA], client)
}

/** Of a reply that is a list. */
async function partsOf(reply: Promise<unknown>, from: number, to: number): Promise<unknown> {
  return ((await reply) as unknown[]).slice(from, to)
}

async function tokenAt(key: string): Promise<string> {
  return (await redis.get(key))?.split(':')[2] ?? ''
}

describe('a node of a Redlock', () => {
  // The accident: a cluster is admitted, and one stripe of it votes with a counter that begins anew.
  it('has all 64 counters once it is admitted, and none of them ends', async () => {
    await admitted('60000', '1700000000000000')
    expect(await run(COUNTERS, COUNTER_KEYS)).toEqual(COUNTER_KEYS.map(() => '1700000000000000'))
    expect(await Promise.all([MARKER, ...COUNTER_KEYS].map((key) => redis.pttl(key)))).toEqual(
      Array.from({ length: 65 }, () => -1),
    )
    expect(
      await run(
        QUARANTINE,
        [MARKER, ...COUNTER_KEYS],
        [...['j'.repeat(22), SET, '99', '60000', NODES], String(await redis.get(MARKER))],
      ),
    ).toMatch(/^hfm1:v:/)
    await redis.del(COUNTER_KEYS[63] ?? '')
    const seen = String(await redis.get(MARKER))
    const again = ['j'.repeat(22), SET, '99', '60000', NODES, seen]
    expect(await run(QUARANTINE, [MARKER, ...COUNTER_KEYS], again)).toMatch(/^hfm1:w:j{22}:/)
  })

  // The accident: a width is one too small, and a day, a name or the hundredth node shifts all fields.
  it('reads a marker of the longest names and numbers, and of the shortest', async () => {
    await admitted('86400000')
    const marker = String(await redis.get(MARKER))
    expect(marker).toMatch(/^hfm1:v:i{22}:S{22}:99:86400000:[0-9a-f]{40}:n/)
    expect(marker.slice(106)).toBe(NODES)
    expect(await acquire(OWNER, '86400000')).toBeTypeOf('number')
    expect(await acquire(NEXT, '86400001')).toEqual(['too-long', 86_400_000])
    await redis.flushall()
    await run(QUARANTINE, [MARKER, ...COUNTER_KEYS], [INC, SET, '1', '100', 'a', ''])
    await run(ADMIT, [MARKER, ...COUNTER_KEYS], [INC, '', ...COUNTER_KEYS.map(() => '1')])
    expect(await redis.get(MARKER)).toMatch(/^hfm1:v:i{22}:S{22}:01:00000100:[0-9a-f]{40}:a$/)
    expect(await acquire(OWNER, '101')).toEqual(['too-long', 100])
    expect(await acquire(OWNER, '100')).toBeTypeOf('number')
  })

  // The accident: 2^53 + 1 is 2^53 as a number, and the next holder gets the token of the last.
  it('draws, raises and repairs exact tokens above 2^53, and none above 2^63 - 1', async () => {
    await admitted('60000', '9007199254740992')
    expect(await acquire()).toBe('9007199254740993')
    const raised = ['0009007199254740995', SET, '']
    expect(await run(RAISE_RECORDED, [LOCK, COUNTER, MARKER], [MARK, ...raised])).toEqual([
      'ok',
      '0009007199254740995',
    ])
    expect(await redis.get(COUNTER)).toBe('9007199254740995')
    const cancel = [LOCK, WANT, TOMBSTONES + OWNER, COUNTER]
    expect(await run(CANCEL, cancel, [MARK, '30000', '9007199254740997'])).toBe(1)
    expect(await redis.get(COUNTER)).toBe('9007199254740997')
    const repair = ['30000', SET, '', '0009223372036854775', METADATA]
    expect(await run(REPAIR, [LOCK, TOMBSTONES + NEXT, COUNTER, MARKER], repair)).toEqual(['ok'])
    expect([await tokenAt(LOCK), await redis.get(COUNTER)]).toEqual([
      '0009223372036854775',
      '9223372036854775',
    ])
    expect(await acquire(NEXT)).toEqual(['repaired'])
    await redis.del(LOCK)
    expect(await run(RAISE, [COUNTER, MARKER], ['9223372036854775806', SET, ''])).toBe(1)
    expect(await acquire(NEXT)).toBe('9223372036854775807')
    await redis.del(LOCK)
    expect(await acquire(NEXT)).toEqual(['no-token'])
  })

  // The accident: the lock server is full, and nobody can give a lock back.
  it('frees under OOM too, and grants, repairs and admits nothing', async () => {
    await admitted()
    await acquire()
    await redis.config('SET', 'maxmemory', '1')
    try {
      expect(await partsOf(acquire(NEXT), 0, 1)).toEqual(['held'])
      expect(await run(REST, [LOCK, TOMBSTONES + OWNER], [MARK, '30000'])).toBe(1)
      const cancel = [LOCK, WANT, TOMBSTONES + NEXT, COUNTER]
      expect(await run(CANCEL, cancel, [`hf1:${NEXT}:`, '30000', '5'])).toBe(0)
      expect(await redis.exists(TOMBSTONES + NEXT)).toBe(1)
      expect(await run(RELEASE, [LOCK, WANT], [`hf1:${'-'.repeat(22)}:`])).toBe(1)
      await expect(acquire()).rejects.toThrow(/^OOM /)
      const repair = ['30000', SET, '', '0000000000000000009', METADATA]
      const keys = [LOCK, TOMBSTONES + OWNER, COUNTER, MARKER]
      await expect(run(REPAIR, keys, repair)).rejects.toThrow(/^OOM /)
    } finally {
      await redis.config('SET', 'maxmemory', '0')
    }
    expect(await redis.get(COUNTER)).not.toBe('9')
    expect(await redis.exists(LOCK)).toBe(0)
  })
})

describe('a restart', () => {
  // The accident: a node comes back without its locks, and its vote makes a second holder.
  it('ends the vote, with all data or without, for a request that names the old run too', async () => {
    await admitted()
    const oldRun = String(await redis.get(MARKER)).slice(65, 105)
    await acquire(OWNER, '60000', oldRun)
    await server.restart({ keepData: true })
    await until(() => redis.status === 'ready', 'the client is connected again')
    expect(await partsOf(acquire(NEXT), 0, 2)).toEqual(['amnesia', 'restarted'])
    const extend = [MARK, '60000', SET, '', '0']
    const extended = run(EXTEND, [LOCK, MARKER], extend)
    expect(await partsOf(extended, 0, 2)).toEqual(['amnesia', 'restarted'])
    // Not gated: what stands there is the owner's to free.
    expect(await run(RELEASE, [LOCK, WANT], [MARK])).toBe(1)
    await server.restart()
    await until(() => redis.status === 'ready', 'the client is connected again')
    expect(await acquire(NEXT)).toEqual(['amnesia', 'empty', ''])
  })

  it('is adopted by a durable server that is alone, by none with a replica and by no replica', async () => {
    await admitted()
    const replica = await startRedis({ args: ['--replicaof', '127.0.0.1', String(server.port)] })
    const onReplica = new Redis(replica.port, '127.0.0.1')
    try {
      const inSync = async (): Promise<boolean> => (await onReplica.exists(MARKER)) === 1
      await until(inSync, 'the replica has the marker')
      const seen = String(await redis.get(MARKER))
      expect(await run(ADOPT_RUN, [MARKER], [seen], onReplica)).toBe(seen)
      expect(await partsOf(run(STATE, [MARKER], [], onReplica), 2, 4)).toEqual(['slave', '0'])
      const other = seen.replace(/[0-9a-f]{40}/, 'f'.repeat(40))
      await redis.set(MARKER, other)
      expect(await partsOf(run(STATE, [MARKER]), 2, 4)).toEqual(['master', '1'])
      expect(await run(ADOPT_RUN, [MARKER], [other])).toBe(other)
      onReplica.disconnect()
      await replica.stop()
      const alone = async (): Promise<boolean> => {
        return (await redis.info('replication')).includes('connected_slaves:0')
      }
      await until(alone, 'the replica is gone')
      expect(await run(ADOPT_RUN, [MARKER], [seen])).toBe(other)
      expect(await run(ADOPT_RUN, [MARKER], [other])).toBe(seen)
    } finally {
      onReplica.disconnect()
      await replica.stop()
    }
  })
})

const RIGHTS = [
  ...['+eval', '+evalsha', '+get', '+mget', '+set', '+del', '+exists', '+type', '+incr'],
  ...['+pttl', '+pexpire', '+time', '+scan', '+publish'],
]

describe('a user of few rights', () => {
  async function open(rights: readonly string[]): Promise<Redis> {
    await redis.call('ACL', 'DELUSER', 'locks')
    const user = ['locks', 'on', '>secret', 'resetkeys', 'resetchannels', '~lock:*', '&lock:*']
    await redis.call('ACL', 'SETUSER', ...user, ...rights)
    const credentials = { username: 'locks', password: 'secret', enableReadyCheck: false }
    const client = new Redis({ ...credentials, host: '127.0.0.1', port: server.port })
    client.on('error', () => undefined)
    await until(() => client.status === 'ready', 'the client is connected')
    return client
  }

  /** @returns the names of the scripts that were refused. */
  async function refused(client: Redis): Promise<string[]> {
    await redis.flushall()
    await admitted()
    await acquire()
    const marker = String(await redis.get(MARKER))
    const gate = [SET, '']
    const lock4 = [LOCK, TOMBSTONES + NEXT, COUNTER, MARKER]
    const token = '0000000000000000005'
    const calls: [RedisScript, string[], string[]][] = [
      [ACQUIRE, lock4, ['30000', ...gate, '1', METADATA]],
      [RAISE_RECORDED, [LOCK, COUNTER, MARKER], [MARK, token, ...gate]],
      [EXTEND, [LOCK, MARKER], [MARK, '40000', ...gate, token]],
      [REPAIR, lock4, ['30000', ...gate, token, METADATA]],
      [RAISE, [COUNTER, MARKER], ['9000000000000000', ...gate]],
      [PROCLAIM, [LOCK], [MARK, '1', ',"v":"x"']],
      [INSPECT, [LOCK], []],
      [LIST, ['lock:'], ['0', '250', '0']],
      [
        REVOKE,
        [...lock4, TOMBSTONES],
        [...[NEXT, OWNER, token, '30000'], ...gate, '1', METADATA, '30000'],
      ],
      [CANCEL, [LOCK, WANT, TOMBSTONES + OWNER, COUNTER], [MARK, '30000', '0']],
      [REST, [LOCK, TOMBSTONES + OWNER], [MARK, '30000']],
      [RELEASE, [LOCK, WANT], [MARK]],
      [STATE, [MARKER], []],
      [COUNTERS, COUNTER_KEYS, []],
      [QUARANTINE, [MARKER, ...COUNTER_KEYS], [INC, SET, '3', '60000', 'a,b,c', marker]],
      [ADMIT, [MARKER, ...COUNTER_KEYS], [INC, '', ...COUNTER_KEYS.map(() => '1')]],
      [ADOPT_RUN, [MARKER], [marker]],
      [CLOSE, [MARKER], [marker, NEXT]],
    ]
    const names: string[] = []
    for (const [script, keys, args] of calls) {
      await run(script, keys, args, client).catch((error: Error) => {
        expect(error.message).toMatch(/can't run this command|NOPERM/)
        names.push(script.name)
      })
    }
    client.disconnect()
    return names
  }

  // The accident: a page lists a right too few, and it shows in the first restart.
  it('may do everything with info of server and replication, and knows no role without the latter', async () => {
    expect(await refused(await open([...RIGHTS, '+info|server', '+info|replication']))).toEqual([])
    expect(await refused(await open([...RIGHTS, '+info|server']))).toEqual(['adopt-run'])
    const client = await open([...RIGHTS, '+info|server'])
    expect(await partsOf(run(STATE, [MARKER], [], client), 2, 4)).toEqual(['', ''])
    client.disconnect()
  })

  it('cannot vote without info of the server, unless the client tells the run', async () => {
    const voting = ['acquire', 'raise of the recorded token', 'extend', 'repair', 'raise', 'revoke']
    const admission = ['state', 'quarantine', 'admit', 'adopt-run']
    expect(await refused(await open(RIGHTS))).toEqual([...voting, ...admission])
    await redis.flushall()
    await admitted()
    const client = await open(RIGHTS)
    const runId = String(await redis.get(MARKER)).slice(65, 105)
    expect(await acquire(OWNER, '30000', runId, client)).toBeTypeOf('number')
    client.disconnect()
  })
})
