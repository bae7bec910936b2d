/** What docs/backends/redis.md says of the rights that a user needs, tried on a real Redis. */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { codeBlocks } from '../../../../scripts/lib/snippets.mjs'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import type { Backend, Grant } from '../../src/core/backend.ts'
import { type RedisOptions, redisBackend } from '../../src/redis.ts'
import { granted, request } from '../../src/testkit/backend-harness.ts'
import { openInspector, until } from '../support/redis.ts'
import { pageOf, tableUnder } from '../unit/docs/pages.ts'

const page = pageOf('docs/backends/redis.md')
/** For what should come, and for what should not: a message takes a millisecond. */
const PATIENCE_MS = 15_000
const SILENCE_MS = 1_000
/** Of `exercise`. */
const OPERATION_COUNT = 17

let server: RedisServer
let inspector: Redis
/** With all rights, for what has to stand before an operation is tried. */
let full: Backend

beforeAll(async () => {
  server = await startRedis()
  inspector = await openInspector(server.port)
  full = redisBackend(inspector, { subscriber: false })
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

async function openAs(
  rights: readonly string[],
  kind: 'ioredis' | 'node-redis' = 'ioredis',
  options: RedisOptions = {},
): Promise<Opened> {
  await inspector.call('ACL', 'DELUSER', 'locks')
  await inspector.call('ACL', 'SETUSER', ...rights)
  const user = { username: 'locks', password: 'secret' }
  const address = { host: '127.0.0.1', port: server.port }
  if (kind === 'ioredis') {
    const enableReadyCheck = rights.includes('+info')
    const client = new Redis({ ...address, ...user, enableReadyCheck })
    client.on('error', () => undefined)
    await until(() => client.status === 'ready', 'the client is connected')
    return opened(redisBackend(client, options), () => client.disconnect())
  }
  const client = createClient({ socket: address, ...user })
  client.on('error', () => undefined)
  await client.connect()
  return opened(redisBackend(client, options), () => client.destroy())
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
    // As after a restart: a script that the server knows need not be sent as text.
    await inspector.script('FLUSH')
    const isDone = await act().then(
      (result) => {
        // A wrong answer would be worse than a refusal; only a wake-up may stay out without a word.
        if (result === false) expect(what).toBe('wake up')
        return result !== false
      },
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
  const held = async (lockName: string): Promise<Grant> =>
    granted(await full.tryAcquire(request(lockName)))
  const a = await held('a')
  await attempt('acquire', async () => granted(await backend.tryAcquire(request('new'))))
  await attempt('refusal', async () => {
    return (await backend.tryAcquire(request('a', { waits: true }))).kind === 'held'
  })
  const b = await held('b')
  await attempt('renew', async () => (await backend.renew(b, 120_000)).kind === 'renewed')
  await attempt('release', async () => (await backend.release(a, 0)) === 'released')
  await attempt('rest', async () => (await backend.release(b, 60_000)) === 'released')
  const c = await held('c')
  await attempt('hand over', async () => {
    return (await backend.handOver?.(c, request('c'), true))?.kind === 'handed-over'
  })
  const d = await held('d')
  await attempt('undo', () => backend.cancel('d', d.owner))
  const { fencingToken } = await held('e')
  await attempt('revoke', async () => {
    return (await backend.revoke(request('e'), { fencingToken, reason: 'test' })) !== null
  })
  await attempt('raise', () => backend.raise('f', 2n ** 60n))
  await full.raise('f', 2n ** 60n)
  await attempt('acquire above the clock', () => backend.tryAcquire(request('f')))
  const g = await held('g')
  await attempt('proclaim', async () => (await backend.proclaim(g, 'value')) === 'proclaimed')
  await attempt('inspect', async () => (await backend.inspect('g')) !== null)
  await attempt('inspect a foreign key', async () => (await backend.inspect('foreign')) !== null)
  await attempt('tell a key of another type', () => toldNotALock(backend))
  await attempt('tell a loss', async () => {
    return (await backend.renew({ ...g, lockName: 'gone' }, 1)).kind === 'lost'
  })
  await attempt('list', () => count(backend))
  await attempt('wake up', () => wakesUp(backend, held, wakeMs))
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
  held: (lockName: string) => Promise<Grant>,
  withinMs: number,
): Promise<boolean> {
  const grant = await held('w')
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

// B053: a page lists too few rights, or none, and the missing one shows in the first failover.
it.each(['ioredis', 'node-redis'] as const)('those of the page are enough for %s', async (kind) => {
  const { backend, end } = await openAs(rightsOfPage(), kind)
  expect(await exercise(backend, PATIENCE_MS)).toEqual([])
  await end()
})

// And the other one: rights are copied that nothing needs, FLUSHALL among them one day.
it('each of them is needed, for exactly what the page says', async () => {
  const rights = rightsOfPage()
  const removable = rights.filter((right) => /^[+&~]/.test(right))
  expect(removable.length).toBeGreaterThan(15)
  const told: Record<string, string> = {}
  for (const right of removable) {
    const { backend, end } = await openAs(rights.filter((other) => other !== right))
    const failed = await exercise(backend, SILENCE_MS)
    await end()
    told[right] = failed.length === OPERATION_COUNT ? 'all' : failed.join(', ') || 'none'
  }
  const rows = tableUnder(page, '#### What fails without each').flatMap(
    ([names = '', fails = '']) =>
      names.split('`, `').map((right) => [right.replaceAll('`', ''), fails]),
  )
  expect(told).toEqual(Object.fromEntries(rows))
})

// Whoever polls gives no rights on channels.
it('without those on channels everything works but the wake-up, and nothing is asked for', async () => {
  const rights = rightsOfPage().filter((right) => !/^&|^\+(un)?(sub|pub)/.test(right))
  const { backend, end } = await openAs(rights, 'ioredis', { subscriber: false })
  await inspector.call('ACL', 'LOG', 'RESET')
  expect(await exercise(backend, SILENCE_MS)).toEqual(['wake up'])
  const denied = (await inspector.call('ACL', 'LOG')) as unknown[][]
  // A release publishes where somebody has left a mark: that somebody may have the right.
  expect(new Set(denied.map((entry) => entry[entry.indexOf('object') + 1]))).toEqual(
    new Set(['publish']),
  )
  await end()
})

// Operators forbid @dangerous, KEYS among it (B111).
it('a user without @dangerous can do everything, and list never asks for KEYS', async () => {
  await inspector.config('RESETSTAT')
  for (const kind of ['ioredis', 'node-redis'] as const) {
    const rights = ['locks', 'on', '>secret', 'resetkeys', 'resetchannels', '~lock:*', '&lock:*']
    const { backend, end } = await openAs([...rights, '+@all', '-@dangerous'], kind)
    expect(await exercise(backend, PATIENCE_MS)).toEqual([])
    await end()
  }
  expect(await inspector.info('commandstats')).not.toMatch(/cmdstat_keys:/)
})

it('the two options that need more are told what they lack', async () => {
  const rights = rightsOfPage()
  const acquire = async (given: readonly string[], options: RedisOptions): Promise<unknown> => {
    await inspector.flushall()
    const { backend, end } = await openAs(given, 'ioredis', { ...options, subscriber: false })
    const answer: unknown = await backend.tryAcquire(request('k')).catch((error) => error)
    await end()
    return answer
  }
  const denied = { code: 'BACKEND_UNAVAILABLE', why: 'no-permission' }
  const replicas = { count: 1, timeoutMs: 1 }
  expect(await acquire(rights, { replicas })).toMatchObject(denied)
  // What was granted before it was told is given back.
  expect(await inspector.exists('lock:k')).toBe(0)
  expect(await acquire([...rights, '+wait'], { replicas })).toMatchObject({ why: 'no-quorum' })
  const withoutInfo = rights.filter((right) => right !== '+info')
  expect(await acquire(withoutInfo, { onEmpty: 'wait' })).toMatchObject(denied)
  expect(await acquire(rights, { onEmpty: 'wait' })).toMatchObject({ why: 'no-quorum' })
})
