import type { Redis } from 'ioredis'
import { createClientPool } from 'redis'
import { createClientPool as createClientPool5 } from 'redis5'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { LockEvents } from '../../src/core/events.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import type { RedisClient } from '../../src/redis.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import {
  CLIENT_NAMES,
  type ClientName,
  openClient,
  openInspector,
  until,
} from '../support/redis.ts'
import { openFollower, startGroup } from '../support/redis-sentinel.ts'

/** A busy machine may need it all; where no replica answers each test waits this long. */
const PATIENT = { count: 1, timeoutMs: 1000 }
const HASTY = { count: 1, timeoutMs: 50 }

let primary: RedisServer
let replica: RedisServer
let redis: Redis
/** Between the replica, its client, and the primary. */
let line: FaultProxy
const ends: (() => unknown)[] = []

beforeAll(async () => {
  const args = ['--repl-diskless-sync-delay', '0', '--shutdown-timeout', '0']
  primary = await startRedis({ args })
  line = await startProxy(primary.port)
  replica = await startRedis({ args: [...args, '--replicaof', '127.0.0.1', `${line.port}`] })
  redis = await openInspector(primary.port)
  await until(isAttached, 'the replica is attached', 30_000)
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  line.letGo('toClient')
  await until(async () => (await redis.wait(1, 1000)) === 1, 'the replica has all of it')
  await redis.flushall()
})

afterAll(async () => {
  redis?.disconnect()
  await replica?.stop()
  await line?.close()
  await primary?.stop()
})

async function isAttached(): Promise<boolean> {
  return (await redis.wait(1, 100)) === 1
}

/** From now on the replica gets nothing, and so confirms nothing. */
function cutOff(): void {
  line.hold('toClient')
}

function backendOf(client: RedisClient, replicas: typeof PATIENT): Backend {
  return redisBackendWith(systemSeams, client, { replicas, subscriber: false })
}

const KINDS: readonly string[] = [...CLIENT_NAMES, 'node-redis 5 pool', 'node-redis 6 pool']

async function open(kind: string): Promise<RedisClient> {
  if (kind.endsWith(' pool')) {
    const options = { socket: { host: '127.0.0.1', port: primary.port } }
    const pool =
      kind === 'node-redis 5 pool' ? createClientPool5(options) : createClientPool(options)
    pool.on('error', () => undefined)
    await pool.connect()
    ends.push(() => pool.close())
    return pool
  }
  const { client, end } = await openClient(kind as ClientName, primary.port)
  ends.push(end)
  return client
}

const tooFew = {
  code: 'BACKEND_UNAVAILABLE',
  why: 'no-quorum',
  message: expect.stringContaining(
    '0 of 1 replicas confirmed within 50 ms; the lock was given back',
  ),
}

describe.each(KINDS)('%s: a lock that replicas must confirm', (kind) => {
  it('is granted, renewed and handed over while they do', async () => {
    const backend = backendOf(await open(kind), PATIENT)
    // Also where the server does not know the scripts.
    await redis.script('FLUSH')
    const grant = await acquired(backend, 'k')
    const copy = await openInspector(replica.port)
    ends.push(() => copy.disconnect())
    // Not later: it was there before the grant was given out.
    expect(await copy.get('lock:k')).toBe(await redis.get('lock:k'))
    await redis.script('FLUSH')
    expect((await backend.renew(grant, 120_000)).kind).toBe('renewed')
    expect(await copy.pttl('lock:k')).toBeGreaterThan(60_000)
    const passed = await backend.handOver?.(grant, request('k'), true)
    if (passed?.kind !== 'handed-over') throw new Error('not handed over')
    expect((await copy.get('lock:k'))?.slice(4, 26)).toBe(passed.grant.owner)
    expect((await backend.tryAcquire(request('k'))).kind).toBe('held')
    const seen = { fencingToken: passed.grant.fencingToken, reason: 'test' }
    const taken = await backend.revoke(request('k'), seen)
    expect((await copy.get('lock:k'))?.slice(4, 26)).toBe(taken?.owner)
    expect(await backend.release(passed.grant, 0)).toBe('not-held')
  })

  it('is given back when they do not, and the call says so', async () => {
    const backend = backendOf(await open(kind), HASTY)
    const patient = backendOf(await open(kind), PATIENT)
    const held = await acquired(patient, 'held')
    const stuck = await acquired(patient, 'stuck')
    cutOff()
    // A replica that is promoted now would bring back the holder that an operator has just removed.
    const seen = { fencingToken: stuck.fencingToken, reason: 'test' }
    const revoking = backend.revoke(request('stuck'), seen)
    await expect(revoking).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN', cause: tooFew })
    expect(await redis.exists('lock:stuck')).toBe(0)
    const asked = request('k')
    await expect(backend.tryAcquire(asked)).rejects.toMatchObject(tooFew)
    expect(await redis.exists('lock:k')).toBe(0)
    expect(await redis.exists(`lock:#hf:cancel:${asked.owner}`)).toBe(1)
    // A refusal grants nothing, and so waits for nobody.
    expect((await backend.tryAcquire(request('held'))).kind).toBe('held')
    const renewal = backend.renew(held, 120_000)
    await expect(renewal).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect((await backend.handOver?.(held, request('held'), true))?.kind).toBe('freed')
    expect(await redis.exists('lock:held')).toBe(0)
  })
})

// After a failover between the grant and its confirmation the replicas agree that nothing is there.
it('a lock that is gone when the replicas are asked is not granted', async () => {
  const client = (await open('ioredis 6')) as Redis
  const vanishing = {
    eval: client.eval.bind(client),
    evalsha: client.evalsha.bind(client),
    pipeline(commands: unknown[][]) {
      const exec = async (): Promise<unknown> => {
        await redis.del('lock:k')
        return client.pipeline(commands).exec()
      }
      return { exec }
    },
  }
  const backend = backendOf(vanishing as RedisClient, PATIENT)
  await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject({ why: 'no-quorum' })
  await expect(backend.tryAcquire(request('l'))).resolves.toMatchObject({ kind: 'granted' })
})

describe('a holder that replicas must confirm', () => {
  // An old primary that was cut off from everybody else went on renewing, while a promoted replica
  // gave the lock to somebody else.
  it('is told before its TTL once they do not; without the option it goes on', async () => {
    const { client, end } = await openClient('ioredis 6', primary.port)
    const ttlMs = 1500
    const careful = createLocksWith(systemSeams, backendOf(client, HASTY), { ttlMs })
    const careless = createLocksWith(systemSeams, redisBackendWith(systemSeams, client), { ttlMs })
    ends.push(
      end,
      () => careful.close(),
      () => careless.close(),
    )
    const failures: LockEvents['renewal-failed'][] = []
    careful.on('renewal-failed', (event) => failures.push(event))
    const confirmed = await careful.acquire('confirmed')
    const other = await careless.acquire('other')
    cutOff()
    await until(() => confirmed.signal.aborted, 'the holder is told')
    expect(confirmed.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
    expect(failures.length).toBeGreaterThan(0)
    expect(failures[0]?.error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(failures[0]?.error.message).toContain('only 0 of 1 replicas confirmed')
    await other.renew()
    expect(other.isHeld).toBe(true)
  })

  it('is granted when they do again, within the time that it waits', async () => {
    const { client, end } = await openClient('node-redis 6', primary.port)
    const locks = createLocksWith(systemSeams, backendOf(client, HASTY), {})
    ends.push(end, () => locks.close())
    cutOff()
    await expect(locks.acquire('k', { waitMs: 300 })).rejects.toMatchObject(tooFew)
    const waiting = locks.acquire('k', { waitMs: 60_000 })
    line.letGo('toClient')
    expect(await (await waiting).release()).toBe('released')
  })
})

// Why WAIT goes with a look at the lock, as one piece: what it counts is bound to its connection.
it('WAIT on a connection that is older than the write says yes of nothing', async () => {
  const early = await openInspector(primary.port)
  ends.push(() => early.disconnect())
  await until(async () => (await early.wait(1, 1000)) === 1, 'the replica has all of it')
  cutOff()
  await redis.set('late', '1')
  expect(await early.wait(1, 50)).toBe(1)
  expect(await redis.wait(1, 50)).toBe(0)
})

describe('a failover under Sentinels', () => {
  // B056: with as many confirmations as there are replicas, whichever is promoted has the lock.
  it('keeps a lock that all replicas have confirmed', async () => {
    const group = await startGroup()
    ends.push(() => group.stop())
    const old = await group.primary()
    const { client, end } = await openFollower('ioredis 6', group)
    ends.push(end)
    const replicas = { count: group.nodes.length - 1, timeoutMs: 1000 }
    const backend = backendOf(client, replicas)
    const grant = await acquired(backend, 'k', { ttlMs: 120_000 })
    await old.kill()
    await until(async () => (await group.primary()) !== old, 'a replica was promoted', 60_000)
    const after = await openInspector((await group.primary()).port)
    ends.push(() => after.disconnect())
    expect((await after.get('lock:k'))?.slice(4, 26)).toBe(grant.owner)
  })

  it.each(['node-redis 5', 'node-redis 6'] as const)(
    '%s: confirmations go by the Sentinel client as well',
    async (name) => {
      const group = await startGroup()
      ends.push(() => group.stop())
      const { client, end } = await openFollower(name, group)
      ends.push(end)
      const backend = backendOf(client, { count: 2, timeoutMs: 1000 })
      const grant = await acquired(backend, 'k')
      expect((await backend.renew(grant, 120_000)).kind).toBe('renewed')
      // Three are more than there are: nothing is ever granted.
      const asking = backendOf(client, { count: 3, timeoutMs: 50 }).tryAcquire(request('l'))
      await expect(asking).rejects.toMatchObject({ why: 'no-quorum' })
    },
  )
})
