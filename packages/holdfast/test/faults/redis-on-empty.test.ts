import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { afterEach, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import { ADMIT } from '../../src/backends/redis/scripts/gate.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { Locks } from '../../src/core/lease.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import type { RedisClient } from '../../src/redis.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import {
  CLIENT_NAMES,
  type ClientName,
  openClient,
  openInspector,
  until,
} from '../support/redis.ts'

const LONGEST_MS = 10_000
/** 1 % more for clocks of another rate, and 100 ms. */
const WAIT_MS = 10_200

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function start(): Promise<RedisServer> {
  const server = await startRedis({
    args: ['--repl-diskless-sync-delay', '0', '--shutdown-timeout', '0'],
  })
  ends.push(() => server.stop())
  return server
}

/** A program on the clock of the test: its waits are over when the test says so. */
interface Program {
  readonly backend: Backend
  nowMs: number
}

interface Opening {
  readonly name?: ClientName
  readonly ttlMsMax?: number
  /** Comes to pass when the wait is over and the server is about to be let in; of ioredis. */
  readonly beforeAdmission?: () => Promise<unknown>
}

function withHook(client: Redis, beforeAdmission: () => Promise<unknown>): RedisClient {
  return {
    eval: (lua: string, ...rest: [number]) => client.eval(lua, ...rest),
    async evalsha(sha1: string, ...rest: [number]) {
      if (sha1 === ADMIT.sha1) await beforeAdmission()
      return client.evalsha(sha1, ...rest)
    },
  }
}

async function openProgram(
  { port }: RedisServer,
  { name = 'ioredis 6', ttlMsMax = LONGEST_MS, beforeAdmission }: Opening = {},
): Promise<Program> {
  const opened = await openClient(name, port)
  ends.push(opened.end)
  const client = beforeAdmission ? withHook(opened.client as Redis, beforeAdmission) : opened.client
  const seams: Seams = { ...systemSeams, nowMs: () => program.nowMs }
  const options = { onEmpty: 'wait', ttlMsMax, subscriber: false } as const
  const program = { backend: redisBackendWith(seams, client, options), nowMs: 0 }
  return program
}

const notYet = {
  code: 'BACKEND_UNAVAILABLE',
  why: 'no-quorum',
  message: expect.stringMatching(/nothing is granted for another \d+ ms/),
}

const refuses = (backend: Backend, lockName = 'k'): Promise<void> =>
  expect(backend.tryAcquire(request(lockName))).rejects.toMatchObject(notYet)

/** Waits for as long as a server that was never used before makes it. */
async function admitted(program: Program): Promise<void> {
  await refuses(program.backend, 'first')
  program.nowMs += WAIT_MS
  await acquired(program.backend, 'first')
}

/** Asks until the client is connected again; an answer of any kind is one. */
async function reconnected({ backend }: Program): Promise<void> {
  await until(
    () =>
      backend.inspect('k').then(
        () => true,
        () => false,
      ),
    'the client is connected again',
  )
}

describe.each(CLIENT_NAMES)('%s: a Redis that came back empty', (name) => {
  it('grants nothing for one longest TTL, and then everything', async () => {
    const server = await start()
    const program = await openProgram(server, { name })
    const { backend } = program
    await admitted(program)
    const before = await acquired(backend, 'k')
    await server.restart()
    await reconnected(program)
    await refuses(backend)
    await refuses(backend, 'other')
    program.nowMs += WAIT_MS - 1
    await refuses(backend)
    program.nowMs += 1
    const after = await acquired(backend, 'k')
    expect(after.fencingToken).toBeGreaterThan(before.fencingToken)
    expect((await backend.tryAcquire(request('k', { waits: true }))).kind).toBe('held')
    await acquired(backend, 'other')
  })
})

describe('a server that may have forgotten leases', () => {
  it('is one that was never used: nobody can tell it from one that lost all', async () => {
    const program = await openProgram(await start())
    await refuses(program.backend)
    program.nowMs += WAIT_MS - 1
    await refuses(program.backend)
    program.nowMs += 1
    await acquired(program.backend, 'k')
  })

  it('is one that was flushed', async () => {
    const server = await start()
    const program = await openProgram(server)
    await admitted(program)
    const redis = await openInspector(server.port)
    await redis.flushall()
    redis.disconnect()
    await refuses(program.backend)
    program.nowMs += WAIT_MS
    await acquired(program.backend, 'k')
  })

  // What was saved may be older than the last grants. What is still there excludes others at once,
  // and goes on being renewed, handed over and released.
  it('is one that was restarted with its data; the locks in it go on', async () => {
    const server = await start()
    const program = await openProgram(server)
    const { backend } = program
    await admitted(program)
    const asked = request('k')
    const first = await backend.tryAcquire(asked)
    if (first.kind !== 'granted') throw new Error('not granted')
    await server.restart({ keepData: true })
    await reconnected(program)
    expect((await backend.tryAcquire(request('k'))).kind).toBe('held')
    await refuses(backend, 'another')
    // The repeat of a request whose answer was lost in the restart.
    expect(await backend.tryAcquire(asked)).toMatchObject({
      grant: { fencingToken: first.grant.fencingToken },
    })
    expect((await backend.renew(first.grant, 90_000)).kind).toBe('renewed')
    const passed = await backend.handOver?.(first.grant, request('k'), true)
    if (passed?.kind !== 'handed-over') throw new Error('not handed over')
    expect(await backend.release(passed.grant, 0)).toBe('released')
    await refuses(backend)
    program.nowMs += WAIT_MS
    await acquired(backend, 'k')
  })

  // B056: the promoted replica has not got the last locks.
  it('is a replica that was promoted', async () => {
    const primary = await start()
    const replica = await start()
    const before = await openProgram(primary)
    await admitted(before)
    const redis = await openInspector(replica.port)
    ends.push(() => redis.disconnect())
    await redis.call('REPLICAOF', '127.0.0.1', String(primary.port))
    const copied = async (): Promise<boolean> => (await redis.exists('lock:#hf:marker')) === 1
    await until(copied, 'the replica has the data', 30_000)
    await redis.call('REPLICAOF', 'NO', 'ONE')
    const after = await openProgram(replica)
    await refuses(after.backend)
    after.nowMs += WAIT_MS
    await acquired(after.backend, 'k')
  })
})

describe('the wait', () => {
  // Somebody's wait for an earlier loss said nothing of leases that were granted after it.
  it('begins again when the data are lost again', async () => {
    const server = await start()
    const program = await openProgram(server)
    await refuses(program.backend)
    program.nowMs += WAIT_MS - 1
    await server.restart()
    await reconnected(program)
    await refuses(program.backend)
    program.nowMs += WAIT_MS - 1
    await refuses(program.backend)
    program.nowMs += 1
    await acquired(program.backend, 'k')
  })

  it('of one program counts for none that has not waited itself, until it is over', async () => {
    const server = await start()
    const early = await openProgram(server)
    const late = await openProgram(server)
    await refuses(early.backend)
    early.nowMs += WAIT_MS / 2
    late.nowMs = early.nowMs
    await refuses(late.backend)
    late.nowMs += WAIT_MS / 2
    await refuses(late.backend)
    early.nowMs += WAIT_MS / 2
    await acquired(early.backend, 'k')
    // The server is known to be safe now: nobody waits for what is over.
    await acquired(late.backend, 'l')
  })

  // While the marker of the first loss was copied to a replica, the primary was let in and granted;
  // then the replica was promoted, and whoever had waited for the same marker let it in at once.
  it('for a marker of another server counts for nothing', async () => {
    const primary = await start()
    const replica = await start()
    const program = await openProgram(primary)
    await refuses(program.backend)
    const redis = await openInspector(replica.port)
    ends.push(() => redis.disconnect())
    await redis.call('REPLICAOF', '127.0.0.1', String(primary.port))
    const copied = async (): Promise<boolean> => (await redis.exists('lock:#hf:marker')) === 1
    await until(copied, 'the replica has the marker', 30_000)
    await redis.call('REPLICAOF', 'NO', 'ONE')
    const marker = await redis.get('lock:#hf:marker')
    const after = await openProgram(replica)
    await refuses(after.backend)
    expect(await redis.get('lock:#hf:marker')).not.toBe(marker)
  })

  // Between the last look at the marker and the word that lets the server in anything may happen.
  it('counts for nothing when the data are lost once more at its very end', async () => {
    const server = await start()
    const redis = await openInspector(server.port)
    ends.push(() => redis.disconnect())
    const other = await openProgram(server)
    const beforeAdmission = async (): Promise<void> => {
      await redis.flushall()
      await refuses(other.backend)
    }
    const program = await openProgram(server, { beforeAdmission })
    await refuses(program.backend)
    program.nowMs += WAIT_MS
    await refuses(program.backend)
    expect(await redis.exists('lock:k')).toBe(0)
    other.nowMs += WAIT_MS
    await acquired(other.backend, 'k')
  })

  it('counts for nothing when somebody with longer TTLs comes at its very end', async () => {
    const server = await start()
    const long = await openProgram(server, { ttlMsMax: 2 * LONGEST_MS })
    const beforeAdmission = (): Promise<void> => refuses(long.backend)
    const program = await openProgram(server, { beforeAdmission })
    await refuses(program.backend)
    program.nowMs += WAIT_MS
    await refuses(program.backend)
    program.nowMs += WAIT_MS - 100
    await acquired(program.backend, 'k')
  })

  it('is as long as the longest TTL of all who ask, also of one who asks later', async () => {
    const server = await start()
    const short = await openProgram(server)
    await refuses(short.backend)
    const long = await openProgram(server, { ttlMsMax: 2 * LONGEST_MS })
    await refuses(long.backend)
    short.nowMs += WAIT_MS
    await refuses(short.backend)
    short.nowMs += WAIT_MS - 100
    await acquired(short.backend, 'k')
  })

  it('needs INFO: without the right nothing is granted, and the right is asked for', async () => {
    const server = await start()
    const redis = await openInspector(server.port)
    ends.push(() => redis.disconnect())
    await redis.call('ACL', 'SETUSER', 'app', 'on', '>secret', '~*', '&*', '+@all', '-info')
    const options = { username: 'app', password: 'secret' }
    const { client, end } = await openClient('ioredis 6', server.port, options)
    ends.push(end)
    const backend = redisBackendWith(systemSeams, client, { onEmpty: 'wait', subscriber: false })
    const asking = backend.tryAcquire(request('k'))
    await expect(asking).rejects.toMatchObject({ why: 'no-permission' })
    expect(await redis.dbsize()).toBe(0)
  })
})

describe('two holders after an empty restart', () => {
  const TTL_MS = 1500

  async function openLocks(server: RedisServer, onEmpty: 'fresh' | 'wait'): Promise<Locks> {
    const { client, end } = await openClient('node-redis 6', server.port)
    const backend = redisBackendWith(systemSeams, client, { onEmpty, ttlMsMax: TTL_MS })
    const locks = createLocksWith(systemSeams, backend, { ttlMs: TTL_MS, renew: false })
    ends.push(end, () => locks.close())
    return locks
  }

  it('are prevented with onEmpty wait: the old lease is over before the next is granted', async () => {
    const server = await start()
    const one = await openLocks(server, 'wait')
    const other = await openLocks(server, 'wait')
    const before = await one.acquire('k', { waitMs: 30_000 })
    const askedAtMs = performance.now()
    await server.restart()
    const after = await other.acquire('k', { waitMs: 60_000 })
    expect(before.isHeld).toBe(false)
    expect(performance.now() - askedAtMs).toBeGreaterThan(TTL_MS)
    expect(after.fencingToken).toBeGreaterThan(before.fencingToken)
    // And a TTL that nobody would wait for is refused before anything is sent.
    await expect(one.acquire('l', { ttlMs: TTL_MS + 1 })).rejects.toMatchObject({
      code: 'INVALID_ARGUMENT',
      option: 'ttlMs',
    })
  })

  // The control: without the option both hold at once, and only the tokens tell them apart.
  it('are there without it, ordered by their tokens', async () => {
    const server = await start()
    const { client, end } = await openClient('node-redis 6', server.port)
    const backend = redisBackendWith(systemSeams, client, {})
    const locks = createLocksWith(systemSeams, backend, { ttlMs: 60_000, renew: false })
    ends.push(end, () => locks.close())
    const before = await locks.acquire('k')
    await server.restart()
    const other = createLocksWith(systemSeams, redisBackendWith(systemSeams, client, {}), {})
    ends.push(() => other.close())
    const after = await other.acquire('k', { waitMs: 30_000 })
    await sleep(20)
    expect([before.isHeld, after.isHeld]).toEqual([true, true])
    expect(after.fencingToken).toBeGreaterThan(before.fencingToken)
  })
})
