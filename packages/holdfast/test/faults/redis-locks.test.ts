import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { startRedis } from '../../../cli/src/lab/servers/index.ts'
import { LeaseLostError, LockHeldError } from '../../src/core/errors.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { redisBackend } from '../../src/redis.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import { openInspector, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
const { ends } = stand
const limits = { ttlMsMin: 50 }

describe('a lease on Redis', () => {
  // B005: times were cut to whole seconds, and a lease under one second could not be had.
  it('lives as many milliseconds as it was asked for', async () => {
    const locks = await stand.locks({ limits })
    const lease = await locks.acquire('k', { ttlMs: 250, renew: false })
    const left = await stand.redis.pttl('lock:k')
    expect(left).toBeGreaterThan(100)
    expect(left).toBeLessThanOrEqual(250)
    await until(async () => (await stand.redis.exists('lock:k')) === 0, 'it has ended')
    await lease.release()
    const odd = await locks.acquire('k', { ttlMs: 1999, renew: false })
    expect(await stand.redis.pttl('lock:k')).toBeGreaterThan(1000)
    expect(await stand.redis.pttl('lock:k')).toBeLessThanOrEqual(1999)
    await odd.release()
  })

  // B014: a holder that had slept through its time deleted the lock of the next one, and a third
  // walked in.
  it('that is over releases nothing of the next holder', async () => {
    const locks = await stand.locks({ limits })
    const others = await stand.locks({ limits })
    const slept = await locks.acquire('k', { ttlMs: 100, renew: false })
    await until(async () => (await stand.redis.exists('lock:k')) === 0, 'it has ended')
    const next = await others.acquire('k', { ttlMs: 10_000 })
    expect(await slept.release()).toBe('not-held')
    expect(await locks.tryAcquire('k')).toBeNull()
    expect(await next.release()).toBe('released')
  })

  // B015: the extension made the key anew, and nobody learned that somebody may have worked in between.
  it('whose key is gone is lost, its key stays gone, and its signal tells', async () => {
    const locks = await stand.locks({ limits })
    const lease = await locks.acquire('k', { ttlMs: 5000 })
    await stand.redis.del('lock:k')
    await expect(lease.renew()).rejects.toBeInstanceOf(LeaseLostError)
    expect(lease.signal.aborted).toBe(true)
    expect(lease.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
    expect(await stand.redis.exists('lock:k')).toBe(0)
  })

  // B016: between a check and a write in two round trips the lock ended, and the write went over the
  // next holder's.
  it('is taken, renewed and released by one command each', async () => {
    const locks = await stand.locks({ limits })
    await (await locks.acquire('warm')).release()
    await locks.acquire('warm', { minHoldMs: 100 }).then((lease) => lease.release())
    await stand.redis.call('CONFIG', 'RESETSTAT')
    const lease = await locks.acquire('k', { ttlMs: 30_000 })
    await lease.renew()
    await lease.release()
    const kept = await locks.acquire('l', { ttlMs: 30_000, minHoldMs: 60_000 })
    await kept.release()
    const info = await stand.redis.info('commandstats')
    const calls = (command: string): number =>
      Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(info)?.[1] ?? 0)
    expect(calls('evalsha')).toBe(5)
    expect(calls('eval')).toBeLessThanOrEqual(1)
    expect(calls('watch') + calls('multi')).toBe(0)
  })

  // B019: a renewal under way when the release began found the key gone, and a healthy holder crashed.
  it('that is being released is never told that it was lost', async () => {
    const locks = await stand.locks({ port: stand.proxy.port })
    stand.proxy.delay('toClient', 0, 10)
    const lost: unknown[] = []
    locks.on('lost', (event) => lost.push(event))
    const lane = async (index: number): Promise<void> => {
      for (let round = 0; round < 40; round++) {
        const lease = await locks.acquire(`k${index}`, { ttlMs: 1500, renewEveryMs: 20 })
        await sleep(15 + Math.random() * 10)
        expect(await lease.release()).toBe('released')
      }
    }
    await Promise.all(Array.from({ length: 25 }, (_, index) => lane(index)))
    stand.proxy.heal()
    expect(lost).toEqual([])
  })

  // B032: the error of a renewal in the background became an unhandled rejection, and ended the
  // process. Vitest fails on any.
  it.each(['ioredis 5', 'ioredis 6', 'node-redis 5', 'node-redis 6'] as const)(
    'of %s survives the end of the server, and its work is told',
    async (name) => {
      const own = await startRedis()
      ends.push(() => own.stop())
      const locks = await stand.locks({ port: own.port, name })
      const startedAtMs = performance.now()
      const working = locks.using('k', { ttlMs: 1000 }, async (lease) => {
        await own.kill()
        await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
        return 'done'
      })
      await expect(working).rejects.toMatchObject({
        code: 'LEASE_LOST',
        reason: 'expired',
        settled: { status: 'fulfilled', value: 'done' },
      })
      expect(performance.now() - startedAtMs).toBeGreaterThan(500)
      await sleep(1500)
    },
  )
})

describe('a failure', () => {
  // B050: busy, down, refused and given up arrived as one vague error.
  it('of each kind has a code of its own', async () => {
    const locks = await stand.locks({ limits })
    const others = await stand.locks({ limits })
    const holder = await others.acquire('k', { label: 'nightly' })
    const busy: unknown = await locks.acquire('k', { waitMs: 100 }).catch((error) => error)
    expect(busy).toBeInstanceOf(LockHeldError)
    expect(busy).toMatchObject({ lockName: 'k', holder: { label: 'nightly', pid: process.pid } })
    const controller = new AbortController()
    const leaving = locks.acquire('k', { signal: controller.signal })
    controller.abort('left')
    await expect(leaving).rejects.toBe('left')
    await stand.redis.set('lock:data', 'for ever')
    await expect(locks.tryAcquire('data')).rejects.toMatchObject({ code: 'NOT_A_LOCK' })
    await holder.release()
    const own = await startRedis()
    ends.push(() => own.stop())
    const { client, end } = await stand.open({ port: own.port })
    const lonely = createLocks(redisBackend(client))
    end()
    await expect(lonely.tryAcquire('k')).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'down',
    })
  })

  // B054: "any error, so run without the lock": a mere time-out under load started several workers.
  it('that leaves open who holds the lock is none that says it was not applied', async () => {
    const locks = await stand.locks({ port: stand.proxy.port })
    await (await locks.acquire('warm')).release()
    const codeOf = async (lockName: string): Promise<unknown> =>
      locks.acquire(lockName, { waitMs: 0, ttlMs: 600 }).then(
        async (lease) => lease.release(),
        (error: { code?: unknown }) => error.code,
      )
    const others = await stand.locks({ limits })
    const held = await others.acquire('held')
    expect(await codeOf('held')).toBe('LOCK_HELD')
    await held.release()
    stand.proxy.drop('toClient')
    expect(await codeOf('slow')).toBe('OUTCOME_UNKNOWN')
  })
})

describe('a failover', () => {
  // B056: a replica that had not got the lock was promoted, and granted it again. That cannot be
  // prevented by the client; the tokens say who is newer, so that the data can refuse the other.
  it('to a replica without the lock gives the next holder a larger token', async () => {
    const primary = await startRedis()
    const between = await startProxy(primary.port)
    const replica = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] })
    ends.push(
      () => primary.stop(),
      () => between.close(),
      () => replica.stop(),
    )
    const replicaInspector = await openInspector(replica.port)
    ends.push(() => replicaInspector.disconnect())
    await replicaInspector.call('REPLICAOF', '127.0.0.1', String(between.port))
    await until(
      async () => /master_link_status:up/.test(await replicaInspector.info('replication')),
      'the replica is attached',
      30_000,
    )
    const old = await stand.backend({ port: primary.port })
    // A client that stays connected to a replica: one of ioredis would look for the primary.
    const current = await stand.backend({ port: replica.port, name: 'node-redis 6' })
    await old.release(await acquired(old, 'k'), 0)
    await acquired(old, 'mark')
    await until(
      async () => (await replicaInspector.exists('lock:mark')) === 1,
      'the replica has all of it',
    )
    between.drop('toClient')
    const first = await acquired(old, 'k')
    await primary.kill()
    // B057: until the promotion the replica says what it is.
    await expect(current.tryAcquire(request('k'))).rejects.toMatchObject({ why: 'read-only' })
    await replicaInspector.call('REPLICAOF', 'NO', 'ONE')
    expect(await current.inspect('k')).toBeNull()
    const second = await acquired(current, 'k')
    expect(second.fencingToken).toBeGreaterThan(first.fencingToken)
    expect(second.source).toBe(first.source)
    expect(await current.renew(first, 1000)).toEqual({ kind: 'lost', reason: 'superseded' })
    expect(await current.release(first, 0)).toBe('not-held')
  })
})
