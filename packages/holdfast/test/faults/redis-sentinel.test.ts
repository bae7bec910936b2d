import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RedisSentinels } from '../../../cli/src/lab/servers/index.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Backend, Grant } from '../../src/core/backend.ts'
import type { Lease, Locks } from '../../src/core/lease.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import type { RedisOptions } from '../../src/redis.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import {
  askUntilGranted,
  type Call,
  expectBounded,
  FAILOVER_MS_MAX,
  LONG_MS,
  ShortLeases,
} from '../support/failover.ts'
import { type PostgresStand, startPostgresStand } from '../support/postgres.ts'
import { allKeys, CLIENT_NAMES, keysWithoutTtl, openInspector, until } from '../support/redis.ts'
import { cutReplicas, openFollower, startGroup } from '../support/redis-sentinel.ts'

/** One program: a client that follows the Sentinels, opened once and never again. */
interface Program {
  readonly backend: Backend
  readonly locks: Locks
  end(): unknown
}

async function openProgram(
  name: (typeof CLIENT_NAMES)[number],
  group: RedisSentinels,
  options: RedisOptions = {},
): Promise<Program> {
  const { client, end } = await openFollower(name, group)
  const backend = redisBackendWith(systemSeams, client, options)
  const { ttlMsMax } = options
  const locks = createLocksWith(systemSeams, backend, ttlMsMax ? { ttlMs: ttlMsMax } : {})
  return {
    backend,
    locks,
    async end() {
      await locks.close()
      end()
    },
  }
}

/** Until every replica has every write so far. */
async function replicated(primary: Redis): Promise<void> {
  const offset = async (field: string): Promise<string[]> =>
    [...(await primary.info('replication')).matchAll(new RegExp(field, 'g'))].map(
      ([, digits = '']) => digits,
    )
  await until(async () => {
    const [own] = await offset('master_repl_offset:(\\d+)')
    const theirs = await offset('state=online,offset=(\\d+)')
    return theirs.length === 2 && theirs.every((digits) => Number(digits) >= Number(own))
  }, 'the replicas have all of it')
}

/** Goes to sleep for a name; resolves once the server knows of it, with the end of the sleep. */
async function subscribed(
  backend: Backend,
  lockName: string,
  primary: Redis,
): Promise<{ slept: Promise<void> | undefined }> {
  const slept = backend.wakeUp?.(lockName, new AbortController().signal)
  const isKnown = async (): Promise<boolean> =>
    ((await primary.pubsub('NUMSUB', `lock:${lockName}`)) as [string, number])[1] > 0
  if (slept) await until(isKnown, 'the subscription is confirmed')
  return { slept }
}

async function newPrimary(group: RedisSentinels, oldPort: number): Promise<Redis> {
  const changed = async (): Promise<boolean> => (await group.primary()).port !== oldPort
  await until(changed, 'a replica was promoted', FAILOVER_MS_MAX)
  return openInspector((await group.primary()).port)
}

describe('a primary that dies with replicas that have the locks', () => {
  let group: RedisSentinels
  let after: Redis
  const programs = new Map<string, Program>()
  const kept = new Map<string, Grant>()
  const short = new ShortLeases()
  const calls = new Map<string, readonly Call[]>()

  beforeAll(async () => {
    group = await startGroup()
    const primary = await group.primary()
    const before = await openInspector(primary.port)
    for (const name of CLIENT_NAMES) {
      const program = await openProgram(name, group)
      programs.set(name, program)
      kept.set(name, await acquired(program.backend, `kept:${name}`, { ttlMs: LONG_MS }))
      await subscribed(program.backend, `kept:${name}`, before)
    }
    await replicated(before)
    before.disconnect()
    for (const name of CLIENT_NAMES) {
      await short.take(name, (programs.get(name) as Program).locks, `short:${name}`)
    }
    await primary.kill()
    await Promise.all(
      [...programs].map(async ([name, { locks }]) => {
        calls.set(name, await askUntilGranted(locks, `asked:${name}`))
      }),
    )
    after = await newPrimary(group, primary.port)
  }, 180_000)

  afterAll(async () => {
    for (const { end } of programs.values()) await end()
    after?.disconnect()
    await group?.stop()
  })

  it.each(CLIENT_NAMES)('%s: the holder of a short lease is told before its TTL', async (name) => {
    await short.expectTold(name)
  })

  // B057: after a failover every call failed until the program was started again.
  it.each(CLIENT_NAMES)('%s: every call is bounded, and goes through again by itself', (name) => {
    const made = calls.get(name) ?? []
    expect(made.length).toBeGreaterThan(1)
    expect(made.at(-1)?.code).toBe('GRANTED')
    expectBounded(made)
  })

  it.each(CLIENT_NAMES)('%s: a lock that was copied is still held, and renewed', async (name) => {
    const { backend } = programs.get(name) as Program
    const grant = kept.get(name) as Grant
    expect(await backend.inspect(`kept:${name}`)).toMatchObject({
      fencingToken: grant.fencingToken,
    })
    expect((await backend.tryAcquire(request(`kept:${name}`))).kind).toBe('held')
    expect((await backend.renew(grant, 2 * LONG_MS)).kind).toBe('renewed')
    expect(await backend.release(grant, 0)).toBe('released')
    const next = await acquired(backend, `kept:${name}`)
    expect(next.fencingToken).toBeGreaterThan(grant.fencingToken)
    expect(await backend.release(next, 0)).toBe('released')
  })

  // The connection for wake-ups is another one than that for requests, and must follow as well.
  it.each(['ioredis 5', 'ioredis 6', 'node-redis 6'])(
    '%s: a release on the new primary wakes those who wait',
    async (name) => {
      const { backend } = programs.get(name) as Program
      const lockName = `woken:${name}`
      const grant = await acquired(backend, lockName)
      await backend.tryAcquire(request(lockName, { waits: true }))
      const { slept } = await subscribed(backend, lockName, after)
      expect(await backend.release(grant, 0)).toBe('released')
      await slept
    },
  )

  // A client that sends again after the failover what its caller has given up long ago must not
  // leave a lock that nobody knows of.
  it('no attempt that was given up holds a name, and nothing is without an end', async () => {
    await until(
      async () => !(await allKeys(after)).some((key) => key.startsWith('lock:asked:')),
      'every attempt is undone',
      FAILOVER_MS_MAX,
    )
    expect(await keysWithoutTtl(after)).toEqual([])
  })
})

describe('a primary that dies with locks that no replica has', () => {
  let stand: PostgresStand

  beforeAll(async () => {
    stand = await startPostgresStand()
  })

  afterAll(() => stand.stop())

  // B056: the promoted replica grants the lock again. That cannot be prevented by a client; the
  // first holder is told at its next renewal, and until then the data refuse what it writes.
  it.each(['ioredis 6', 'node-redis 6'] as const)(
    '%s: the old holder is told, and refused by the guard under the larger token',
    async (name) => {
      const lockName = `of ${name}`
      const group = await startGroup()
      const one = await openProgram(name, group)
      const other = await openProgram(name, group)
      const { guard, append, entries, close } = await stand.open()
      try {
        const primary = await group.primary()
        await cutReplicas(primary.port)
        const lost = await one.locks.acquire(lockName, { waitMs: 0, ttlMs: LONG_MS })
        const gone = await one.locks.acquire('gone', { waitMs: 0, ttlMs: LONG_MS })
        await primary.kill()
        const after = await newPrimary(group, primary.port)
        expect(await after.exists(`lock:${lockName}`, 'lock:gone')).toBe(0)
        after.disconnect()

        const next = await other.locks.acquire(lockName, { waitMs: FAILOVER_MS_MAX })
        expect(next.fencingToken).toBeGreaterThan(lost.fencingToken)
        expect(next.source).toBe(lost.source)
        await guard.transaction(next, (tx) => append(tx, lockName, 'next'))
        // What it may still send before it is told: given the lease itself, the guard would stop it
        // here as soon as the signal has aborted.
        const { fencingToken, owner, source } = lost
        const late = guard.transaction({ fencingToken, owner, source, lockName }, (tx) =>
          append(tx, lockName, 'late'),
        )
        await expect(late).rejects.toMatchObject({ code: 'STALE_TOKEN' })
        expect(await entries(lockName)).toEqual(['next'])

        expect(await toldAtRenewal(lost)).toBe('superseded')
        expect(await toldAtRenewal(gone)).toBe('expired')
        expect(next.isHeld).toBe(true)
        expect(await next.release()).toBe('released')
      } finally {
        await Promise.all([one.end(), other.end(), close()])
        await group.stop()
      }
    },
    180_000,
  )
})

// B056 with the option that waits: the promoted replica is another server than the marker names.
it('onEmpty wait: the next holder comes when the lease that no replica has is over', async () => {
  const group = await startGroup()
  // Longer than a failover, which would see the end of a shorter lease by itself.
  const ttlMs = 10_000
  const options = { onEmpty: 'wait', ttlMsMax: ttlMs } as const
  const one = await openProgram('ioredis 6', group, options)
  const other = await openProgram('node-redis 6', group, options)
  try {
    const lasting = { waitMs: FAILOVER_MS_MAX, ttlMs, renew: false }
    const primary = await group.primary()
    const inspector = await openInspector(primary.port)
    const runId = /run_id:(\w+)/.exec(await inspector.info('server'))?.[1]
    // As if the wait before the first lock were over.
    await inspector.set('lock:#hf:marker', `voting:test:${ttlMs}:${runId}`)
    await replicated(inspector)
    inspector.disconnect()
    await cutReplicas(primary.port)
    const lost = await one.locks.acquire('k', lasting)
    await primary.kill()
    const next = await other.locks.acquire('k', lasting)
    expect([lost.isHeld, next.isHeld]).toEqual([false, true])
    expect(next.fencingToken).toBeGreaterThan(lost.fencingToken)
  } finally {
    await Promise.all([one.end(), other.end()])
    await group.stop()
  }
}, 180_000)

/** The reason that a renewal tells; while the client still looks for the primary there is none. */
async function toldAtRenewal(lease: Lease): Promise<string> {
  const untilMs = performance.now() + FAILOVER_MS_MAX
  while (!lease.signal.aborted && performance.now() < untilMs) {
    await lease.renew().catch(() => undefined)
    await sleep(50)
  }
  return String((lease.signal.reason as { reason?: unknown })?.reason)
}
