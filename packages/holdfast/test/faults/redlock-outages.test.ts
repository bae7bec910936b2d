import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { describe, expect, it } from 'vitest'
import type { Warning } from '../../src/core/events.ts'
import type { Locks } from '../../src/core/lease.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { type RedisClient, redlockBackend } from '../../src/redlock.ts'
import { stripeKeys } from '../../src/wire/keys.ts'
import { openClient, until } from '../support/redis.ts'
import { standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
/** Clients as they are without any option, one of each family. */
const NAMES = ['ioredis 6', 'node-redis 6'] as const
const TIMEOUT_OPTIONS = { 'ioredis 6': 'socketTimeout', 'node-redis 6': 'socket.socketTimeout' }
const NODE_TIMEOUT_MS = 2000
/** Whoever waits for a node that is away takes about the time above. */
const SOON_MS = 1400
const TTL_MS = 3000
const TTL = { ttlMs: TTL_MS } as const
const OPTIONS = { nodeTimeoutMs: NODE_TIMEOUT_MS, maxTtlMs: TTL_MS } as const

type Step = 'acquire' | 'renew' | 'release'

/** The two nodes that are left disagree on every new token, so that the third one's word would help. */
async function setApart(): Promise<void> {
  const ahead = String(BigInt(Date.now() + 50_000) * 1000n)
  await stand.inspectors[0]?.mset(stripeKeys('lock:').flatMap((key) => [key, ahead]))
}

async function stepsMs(locks: Locks, lockName: string): Promise<Record<Step, number>> {
  const times: number[] = [performance.now()]
  const lease = await locks.acquire(lockName, { renew: false })
  times.push(performance.now())
  await lease.renew()
  times.push(performance.now())
  await lease.release()
  times.push(performance.now())
  const [begin = 0, acquired = 0, renewed = 0, released = 0] = times
  return { acquire: acquired - begin, renew: renewed - acquired, release: released - renewed }
}

/**
 * The slowest of a few rounds. The first of them tells most: after some more a node has so many requests
 * unanswered that it is not asked any more, which would hide whether somebody waits for it.
 */
async function slowest(locks: Locks, title: string): Promise<Record<Step, number>> {
  const rounds: Record<Step, number>[] = []
  for (let round = 0; round < 3; round++) rounds.push(await stepsMs(locks, `${title} ${round}`))
  const most = (step: Step): number => Math.max(...rounds.map((times) => times[step]))
  return { acquire: most('acquire'), renew: most('renew'), release: most('release') }
}

function expectSoon(times: Record<Step, number>): void {
  expect(times.acquire).toBeLessThan(SOON_MS)
  expect(times.renew).toBeLessThan(SOON_MS)
  expect(times.release).toBeLessThan(SOON_MS)
}

/** Takes names anew until one of the grants is on the node too. */
async function untilUsed(locks: Locks, place: number): Promise<void> {
  await until(async () => {
    const lease = await locks.acquire('used')
    await sleep(20)
    const stands = await stand.inspectors[place]?.exists('lock:used')
    await lease.release()
    return stands === 1
  }, 'the node is in use again')
}

function warningsOf(locks: Locks): Warning[] {
  const warnings: Warning[] = []
  locks.on('warning', (warning) => warnings.push(warning))
  return warnings
}

describe('one node of three', () => {
  // B047. Nothing ends a connection that leads nowhere but the client's own time-out, which by default
  // it does not have.
  it('behind a black hole costs nothing but the first to meet it, and is used again', async () => {
    const programs = await Promise.all(
      NAMES.map(async (name) => {
        const locks = await stand.locks(
          { name, queues: true, proxied: true, options: OPTIONS },
          TTL,
        )
        const warnings = warningsOf(locks)
        await stepsMs(locks, `${name} before`)
        return { name, locks, warnings }
      }),
    )
    await setApart()
    stand.proxies[1]?.drop('toServer')
    stand.proxies[1]?.drop('toClient')
    await Promise.all(
      programs.map(async ({ name, locks, warnings }) => {
        const first = await stepsMs(locks, `${name} first`)
        expect(first.acquire).toBeLessThan(2 * NODE_TIMEOUT_MS)
        expectSoon(await slowest(locks, name))
        const option = TIMEOUT_OPTIONS[name]
        const silent = warnings.filter((warning) => warning.option === option)
        expect(silent).toHaveLength(1)
        expect(silent[0]?.advice).toContain('node "b" leaves requests unanswered')
      }),
    )
    stand.proxies[1]?.heal()
    // As when the client gives the connection up.
    stand.proxies[1]?.reset()
    await Promise.all(programs.map(({ locks }) => untilUsed(locks, 1)))
  })

  it('that was killed costs nothing either, and votes again once it may', async () => {
    const programs = await Promise.all(
      NAMES.map(async (name) => {
        const locks = await stand.locks({ name, queues: true, options: OPTIONS }, TTL)
        await stepsMs(locks, `${name} before`)
        return { name, locks }
      }),
    )
    await setApart()
    await stand.servers[1]?.kill()
    try {
      await Promise.all(
        programs.map(async ({ name, locks }) => {
          await stepsMs(locks, `${name} first`)
          expectSoon(await slowest(locks, name))
        }),
      )
    } finally {
      await stand.servers[1]?.restart()
    }
    await Promise.all(programs.map(({ locks }) => untilUsed(locks, 1)))
  })

  it('that was never there costs nothing either, and is used once it is there', async () => {
    await stepsMs(await stand.locks({ options: OPTIONS }, TTL), 'before')
    await setApart()
    await stand.servers[2]?.kill()
    try {
      const programs = await Promise.all(NAMES.map(openWithoutWaiting))
      await Promise.all(
        programs.map(async ({ name, locks }) => {
          await stepsMs(locks, `${name} first`)
          expectSoon(await slowest(locks, name))
        }),
      )
      await stand.servers[2]?.restart()
      await Promise.all(programs.map(({ locks }) => untilUsed(locks, 2)))
    } finally {
      await stand.servers[2]?.restart()
    }
  })
})

/** As a program that starts while node `c` is down: nobody can wait for that client. */
async function openWithoutWaiting(
  name: (typeof NAMES)[number],
): Promise<{ name: (typeof NAMES)[number]; locks: Locks }> {
  const [a, b] = await Promise.all(
    [0, 1].map(async (place) => {
      const { client, end } = await openClient(name, stand.servers[place]?.port ?? 0, {
        queues: true,
      })
      stand.ends.push(end)
      return { client, subscriber: false as const }
    }),
  )
  const c = { client: connecting(name, stand.servers[2]?.port ?? 0), subscriber: false as const }
  if (a === undefined || b === undefined) throw new Error('there are two clients')
  const locks = createLocks(redlockBackend({ a, b, c }, { ...OPTIONS, onEmpty: 'fresh' }), TTL)
  stand.ends.push(() => locks.close())
  return { name, locks }
}

function connecting(name: (typeof NAMES)[number], port: number): RedisClient {
  if (name === 'ioredis 6') {
    const client = new Redis({ host: '127.0.0.1', port })
    client.on('error', () => undefined)
    stand.ends.push(() => client.disconnect())
    return client
  }
  const client = createClient({ socket: { host: '127.0.0.1', port } })
  client.on('error', () => undefined)
  client.connect().catch(() => undefined)
  stand.ends.push(() => (client.isOpen ? client.destroy() : undefined))
  return client
}
