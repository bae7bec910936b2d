/** What docs/backends/redis.md says of the rights that a user needs, tried on a real Redis. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { codeBlocks } from '../../../../scripts/lib/snippets.mjs'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import type { Backend, Grant } from '../../src/core/backend.ts'
import { redisBackend } from '../../src/redis.ts'
import { granted, request } from '../../src/testkit/backend-harness.ts'
import { openInspector, until } from '../support/redis.ts'
import { pageOf } from '../unit/docs/pages.ts'

const page = pageOf('docs/backends/redis.md')
/** For what should come, and for what should not: a message takes a millisecond. */
const PATIENCE_MS = 15_000
const SILENCE_MS = 1_000

let server: RedisServer
let inspector: Redis

beforeAll(async () => {
  server = await startRedis()
  inspector = await openInspector(server.port)
})

afterAll(async () => {
  inspector?.disconnect()
  await server?.stop()
})

/** The page's command without its first line, as words. */
function rightsOfPage(): string[] {
  const block = codeBlocks(page.text).find(({ language }) => language === 'acl')
  const [command = '', ...rest] = (block?.text ?? '').split(/\s+/).slice(1)
  expect(command).toBe('SETUSER')
  return rest
}

type Opened = Readonly<{ backend: Backend; end: () => Promise<void> }>

async function openAs(rights: readonly string[], kind: 'ioredis' | 'node-redis'): Promise<Opened> {
  await inspector.call('ACL', 'DELUSER', 'locks')
  await inspector.call('ACL', 'SETUSER', ...rights)
  const user = { username: 'locks', password: 'secret' }
  const address = { host: '127.0.0.1', port: server.port }
  if (kind === 'ioredis') {
    const enableReadyCheck = rights.includes('+info')
    const client = new Redis({ ...address, ...user, enableReadyCheck })
    client.on('error', () => undefined)
    await until(() => client.status === 'ready', 'the client is connected')
    return opened(redisBackend(client), () => client.disconnect())
  }
  const client = createClient({ socket: address, ...user })
  client.on('error', () => undefined)
  await client.connect()
  return opened(redisBackend(client), () => client.destroy())
}

function opened(backend: Backend, disconnect: () => void): Opened {
  const end = async (): Promise<void> => {
    await backend.close()
    disconnect()
  }
  return { backend, end }
}

/** @returns the names of what did not work. */
async function exercise(backend: Backend, wakeMs: number): Promise<string[]> {
  const failed: string[] = []
  const attempt = async (what: string, act: () => Promise<unknown>): Promise<void> => {
    const isDone = await act().then(
      (result) => result !== false,
      (error) => {
        expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' })
        return false
      },
    )
    if (!isDone) failed.push(what)
  }
  await inspector.flushall()
  await inspector.script('FLUSH')
  // Every way to end a script of ours: held, foreign, of another type, free, raised.
  await inspector.set('lock:foreign', 'theirs', 'PX', 60_000)
  await inspector.sadd('lock:set', 'member')
  const acquire = async (lockName: string): Promise<Grant> =>
    granted(await backend.tryAcquire(request(lockName)))
  await attempt('acquire', () => acquire('a'))
  await attempt('refusal', () => backend.tryAcquire(request('a', { waits: true })))
  await attempt('renew', async () => backend.renew(await acquire('b'), 120_000))
  await attempt('release', async () => backend.release(await acquire('c'), 0))
  await attempt('rest', async () => backend.release(await acquire('d'), 60_000))
  await attempt('hand over', async () => {
    await backend.handOver?.(await acquire('e'), request('e'), true)
  })
  await attempt('cancel', async () => {
    await backend.cancel('f', (await acquire('f')).owner)
  })
  await attempt('revoke', async () => {
    const { fencingToken } = await acquire('g')
    await backend.revoke(request('g'), { fencingToken, reason: 'test' })
  })
  await attempt('raise', async () => {
    await backend.raise('h', 2n ** 60n)
    await acquire('h')
  })
  await attempt('proclaim', async () => backend.proclaim(await acquire('i'), 'value'))
  await attempt('inspect', () => backend.inspect('a'))
  await attempt('inspect a foreign key', () => backend.inspect('foreign'))
  await attempt('tell a key of another type', () => toldNotALock(backend))
  await attempt('lost', async () => backend.renew({ ...(await acquire('j')), lockName: 'k' }, 1))
  await attempt('list', () => count(backend))
  await attempt('wake up', () => wakesUp(backend, acquire, wakeMs))
  return failed
}

async function toldNotALock(backend: Backend): Promise<boolean> {
  return backend.inspect('set').then(
    () => false,
    (error) => {
      if (error.code === 'NOT_A_LOCK') return true
      throw error
    },
  )
}

async function count(backend: Backend): Promise<boolean> {
  let found = 0
  for await (const _ of backend.list('', 100)) found += 1
  return found > 3
}

/** Whether a release wakes the one who sleeps. */
async function wakesUp(
  backend: Backend,
  acquire: (lockName: string) => Promise<Grant>,
  withinMs: number,
): Promise<boolean> {
  const grant = await acquire('w')
  await backend.tryAcquire(request('w', { waits: true }))
  const sleeper = new AbortController()
  let isAwake = false
  const slept = backend.wakeUp?.('w', sleeper.signal).then(() => {
    isAwake = !sleeper.signal.aborted
  })
  // Confirmed when it shows; without the right it never does.
  const untilMs = performance.now() + withinMs
  const subscribed = async (): Promise<boolean> =>
    ((await inspector.pubsub('NUMSUB', 'lock:w')) as [string, number])[1] > 0
  while (!(await subscribed()) && performance.now() < untilMs) await sleep(20)
  await backend.release(grant, 0)
  while (!isAwake && performance.now() < untilMs + withinMs) await sleep(20)
  const answer = isAwake
  sleeper.abort()
  await slept
  return answer
}

// The accident: a page lists too few rights, and the missing one shows in the first failover.
it.each(['ioredis', 'node-redis'] as const)('those of the page are enough for %s', async (kind) => {
  const { backend, end } = await openAs(rightsOfPage(), kind)
  expect(await exercise(backend, PATIENCE_MS)).toEqual([])
  await end()
})

// And the other one: rights are copied that nothing needs, FLUSHALL among them one day.
it('each of them is needed, for what the page says', async () => {
  const rights = rightsOfPage()
  const removable = rights.filter((right) => /^[+&~]/.test(right))
  expect(removable.length).toBeGreaterThan(15)
  const optional: Readonly<Record<string, string[]>> = {
    '+scan': ['list'],
    '&lock:*': ['wake up'],
    '+publish': ['wake up'],
    '+subscribe': ['wake up'],
    // Only the policy is asked by it, and a subscription that stays costs a message now and then.
    '+unsubscribe': [],
    '+info': [],
  }
  for (const right of removable) {
    const { backend, end } = await openAs(
      rights.filter((other) => other !== right),
      'ioredis',
    )
    const wanted = optional[right]
    const isWoken = wanted !== undefined && !wanted.includes('wake up')
    const failed = await exercise(backend, isWoken ? PATIENCE_MS : SILENCE_MS)
    await end()
    if (wanted) expect({ right, failed }).toEqual({ right, failed: wanted })
    else expect({ right, count: failed.length }).not.toEqual({ right, count: 0 })
  }
})
