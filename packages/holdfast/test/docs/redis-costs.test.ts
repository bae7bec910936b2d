/** What docs/backends/redis.md says that each operation costs, counted on a real Redis. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import type { AcquireRequest, Backend, Grant } from '../../src/core/backend.ts'
import { redisBackend } from '../../src/redis.ts'
import { granted, request } from '../../src/testkit/backend-harness.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { openInspector } from '../support/redis.ts'
import { pageOf, tableUnder } from '../unit/docs/pages.ts'

const page = pageOf('docs/backends/redis.md')

/** As long as that of a container in a cluster usually is; the page says so. */
const HOLDER = { host: 'worker-7d4b9c6f5-x2x7q', pid: 4711 }

let server: RedisServer
let proxy: FaultProxy
let inspector: Redis

beforeAll(async () => {
  server = await startRedis()
  proxy = await startProxy(server.port)
  inspector = await openInspector(server.port)
})

afterAll(async () => {
  inspector?.disconnect()
  await proxy?.close()
  await server?.stop()
})

beforeEach(async () => {
  await inspector.flushall()
})

/** Calls of each command so far, those inside scripts included, without what the test itself sends. */
async function calls(): Promise<Map<string, number>> {
  const own = new Set(['info', 'config|resetstat', 'config', 'flushall', 'hello', 'quit'])
  const found = new Map<string, number>()
  for (const [, name = '', count] of (await inspector.info('commandstats')).matchAll(
    /^cmdstat_([\w|]+):calls=(\d+)/gm,
  )) {
    if (!own.has(name) && Number(count) > 0) found.set(name.toUpperCase(), Number(count))
  }
  return found
}

describe('costs', () => {
  let client: Redis
  let backend: Backend

  beforeAll(() => {
    client = new Redis(proxy.port, '127.0.0.1')
    backend = redisBackend(client, { subscriber: false })
  })

  afterAll(async () => {
    await backend.close()
    await client.quit()
  })

  const named = (fields: Partial<AcquireRequest> = {}): AcquireRequest =>
    request('order:42', { ttlMs: 30_000, holder: HOLDER, ...fields })
  const held = async (): Promise<Grant> => granted(await backend.tryAcquire(named()))
  const wait = (): Promise<unknown> => backend.tryAcquire(named({ waits: true }))

  /** Each row of the page: what stands before, and the operation whose commands are counted. */
  const OPERATIONS: Readonly<Record<string, () => Promise<() => Promise<unknown>>>> = {
    'acquire, granted': async () => () => held(),
    'acquire, refused': async () => {
      await held()
      return () => backend.tryAcquire(named())
    },
    'acquire, refused, of one who waits': async () => {
      await held()
      return () => wait()
    },
    renewal: async () => {
      const grant = await held()
      return () => backend.renew(grant, 2 * grant.ttlMs)
    },
    release: async () => {
      const grant = await held()
      return () => backend.release(grant, 0)
    },
    'release, while somebody waits': async () => {
      const grant = await held()
      await wait()
      return () => backend.release(grant, 0)
    },
    'release before `minHoldMs` is over': async () => {
      const grant = await held()
      return () => backend.release(grant, 10_000)
    },
    'hand-over to the next contender of this process': async () => {
      const grant = await held()
      return async () => backend.handOver?.(grant, named(), true)
    },
    'undo of an attempt': async () => async () => backend.cancel('order:42', named().owner),
    'inspect, of a lock': async () => {
      await held()
      return () => backend.inspect('order:42')
    },
    revoke: async () => {
      const { fencingToken } = await held()
      return () => backend.revoke(named(), { fencingToken, reason: 'test' })
    },
  }

  // The accident: a page with figures from the drawing board, which nobody counted.
  it('every operation sends and runs what the table says', async () => {
    const rows = tableUnder(page, '## Costs')
    expect(rows.map(([operation]) => operation)).toEqual(Object.keys(OPERATIONS))
    const bytes = { toServer: 0, toClient: 0 }
    proxy.onBytes = (direction, piece) => {
      bytes[direction] += piece.byteLength
    }
    for (const [operation = '', requests, commands, sentBytes, answerBytes] of rows) {
      // Once before, so that Redis knows the scripts.
      for (let round = 1; round <= 2; round++) {
        await inspector.flushall()
        const act = await OPERATIONS[operation]?.()
        await inspector.config('RESETSTAT')
        bytes.toServer = bytes.toClient = 0
        await act?.()
      }
      const counted = await calls()
      const sent = (counted.get('EVALSHA') ?? 0) + (counted.get('EVAL') ?? 0)
      counted.delete('EVALSHA')
      const inside = [...counted]
        .flatMap(([name, count]) => Array.from({ length: count }, () => name))
        .sort()
      const seen = `${sent}, ${inside.length}: ${inside.join(', ')}`
      expect(`${operation} ${seen}`).toBe(`${operation} ${requests}, ${commands}`)
      const found = `${operation} ${bytes.toServer} ${bytes.toClient}`
      expect(found).toBe(`${operation} ${sentBytes} ${answerBytes}`)
    }
  })

  it('a counter that is ahead of the clock costs three commands more', async () => {
    await backend.raise('order:42', 2n ** 60n)
    await inspector.config('RESETSTAT')
    await held()
    const counted = await calls()
    counted.delete('EVALSHA')
    expect([...counted.values()].reduce((sum, count) => sum + count, 0)).toBe(4 + 3)
  })

  /** Calls of one command since the last RESETSTAT; the INFO that asks for them is not among them. */
  async function callsOf(...commands: string[]): Promise<number[]> {
    const stats = await inspector.info('commandstats')
    return commands.map((command) =>
      Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0),
    )
  }

  it('onEmpty wait costs two commands more, one of them INFO', async () => {
    const runId = /run_id:(\w+)/.exec(await inspector.info('server'))?.[1]
    await inspector.set('lock:#hf:marker', `voting:inc:60000:${runId}`)
    const gated = redisBackend(client, { onEmpty: 'wait', subscriber: false })
    granted(await gated.tryAcquire(named()))
    await inspector.config('RESETSTAT')
    granted(await gated.tryAcquire(request('another')))
    expect(await callsOf('info', 'get', 'evalsha', 'exists', 'getset', 'set', 'time')).toEqual([
      1, 1, 1, 1, 1, 1, 1,
    ])
    await gated.close()
  })

  it('replicas cost one request more, with a WAIT behind it', async () => {
    const replicas = { count: 1, timeoutMs: 1 }
    const confirmed = redisBackend(client, { replicas, subscriber: false })
    const refused = (): Promise<unknown> =>
      expect(confirmed.tryAcquire(named())).rejects.toMatchObject({ why: 'no-quorum' })
    await refused()
    await inspector.config('RESETSTAT')
    await refused()
    // The grant, the look before WAIT, and the undo of what nobody confirmed.
    expect(await callsOf('evalsha', 'eval', 'wait')).toEqual([3, 0, 1])
    await confirmed.close()
  })
})
