import type { EventEmitter } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Lease } from '../../src/core/lease.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { redisBackend } from '../../src/redis.ts'
import type { ProxyConnection } from '../../src/testkit/proxy.ts'
import { allKeys, CLIENT_NAMES, keysWithoutTtl, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()

/** Counts what clients write, whether it arrives or not. */
function countRequests(): () => number {
  let count = 0
  stand.proxy.onBytes = (direction, bytes) => {
    if (direction !== 'toServer') return
    count +=
      Buffer.from(bytes)
        .toString('latin1')
        .match(/\$(?:7\r\nevalsha|4\r\neval)\r\n/gi)?.length ?? 0
  }
  return () => count
}

function fallSilent(): void {
  stand.proxy.drop('toServer')
  stand.proxy.drop('toClient')
}

function wake(): void {
  stand.proxy.heal()
  // What a sender learns at last, when nothing was acknowledged for long enough.
  stand.proxy.reset()
}

function listenersOf(client: unknown): Record<string, number> {
  const emitter = client as EventEmitter
  const names = emitter.eventNames().map(String).sort()
  return Object.fromEntries(names.map((name) => [name, emitter.listenerCount(name)]))
}

function collectWarnings(): Error[] {
  const warnings: Error[] = []
  const onWarning = (warning: Error): unknown => warnings.push(warning)
  process.on('warning', onWarning)
  onTestFinished(() => void process.off('warning', onWarning))
  return warnings
}

describe.each(CLIENT_NAMES)('behind a black hole, %s:', (name) => {
  // Each contender sent requests of its own, and repeated each of them: when the store came back it
  // was run over by what had piled up.
  it('100 contenders send little, pile nothing up, and all have their turn afterwards', async () => {
    const warnings = collectWarnings()
    const { client, end } = await stand.open({ name, port: stand.proxy.port })
    const locks = createLocks(redisBackend(client, { subscriber: false }))
    stand.ends.push(end, () => locks.close())
    const holder = await locks.acquire('held', { ttlMs: 3000 })
    const listeners = listenersOf(client)
    fallSilent()
    const sent = countRequests()
    let inside = 0
    let turns = 0
    const work = async (): Promise<void> => {
      const lease = await locks.acquire('k', { ttlMs: 30_000, waitMs: 60_000 })
      inside += 1
      expect(inside).toBe(1)
      await sleep(1)
      inside -= 1
      turns += 1
      await lease.release()
    }
    const all = Promise.all(Array.from({ length: 100 }, work))
    await sleep(4000)
    const early = sent()
    await sleep(4000)
    const late = sent() - early
    // Attempts of the one head, the undoing of those that had no answer, a few renewals.
    expect(early).toBeLessThan(30)
    expect(late).toBeLessThan(30)
    expect(turns).toBe(0)
    expect(holder.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
    wake()
    await all
    expect(turns).toBe(100)
    await until(async () => (await lockKeys()).length === 0, 'nothing is held', 20_000)
    expect(await keysWithoutTtl(stand.redis)).toEqual([])
    expect(listenersOf(client)).toEqual(listeners)
    expect(warnings).toEqual([])
  })

  // B047: a dead node added its client's whole time-out, seconds or for ever, to every call.
  it('every call ends in its own time, and says that nobody knows', async () => {
    const locks = await stand.locks({ name, port: stand.proxy.port })
    const lease = await locks.acquire('k', { ttlMs: 60_000 })
    fallSilent()
    const timed = async (call: () => Promise<unknown>): Promise<unknown[]> => {
      const beganAtMs = performance.now()
      const code = await call().then(
        () => 'done',
        (error: { code?: unknown }) => error.code,
      )
      return [code, performance.now() - beganAtMs < 6000]
    }
    const calls: readonly (() => Promise<unknown>)[] = [
      () => locks.tryAcquire('other', { ttlMs: 2000 }),
      () => locks.acquire('other', { waitMs: 500 }),
      () => lease.renew(),
    ]
    const ended = await Promise.all(calls.map(timed))
    expect(ended).toEqual(calls.map(() => ['OUTCOME_UNKNOWN', true]))
    // A question changes nothing, so there is nothing to be unknown.
    expect(await timed(() => locks.inspect('k'))).toEqual(['BACKEND_UNAVAILABLE', true])
    expect(await timed(() => lease.release())).toEqual(['OUTCOME_UNKNOWN', true])
    expect(await timed(() => locks.close())).toEqual(['done', true])
  })

  // A connection that is gone without a word brings no message any more, and no error either.
  it('contenders whose subscriber is half open still have their turn, by polling', async () => {
    const subscribers = new Set<ProxyConnection>()
    stand.proxy.onBytes = (direction, bytes, connection) => {
      const text = Buffer.from(bytes).toString('latin1')
      if (direction === 'toServer' && /\r\nsubscribe\r\n/i.test(text)) subscribers.add(connection)
    }
    const ours = await stand.locks({ name, port: stand.proxy.port, options: {} })
    const theirs = await stand.locks()
    let held = await theirs.acquire('k', { ttlMs: 30_000 })
    const next = async (): Promise<Lease> => ours.acquire('k', { ttlMs: 30_000, waitMs: 25_000 })
    let waiting = next()
    await until(async () => (await subscribersOf('lock:k')) === 1, 'it listens')
    expect(subscribers.size).toBe(1)
    for (const connection of subscribers) {
      connection.drop('toClient')
      connection.drop('toServer')
    }
    for (let round = 0; round < 3; round++) {
      await held.release()
      const lease = await waiting
      expect(lease.fencingToken).toBeGreaterThan(held.fencingToken)
      await lease.release()
      held = await theirs.acquire('k', { ttlMs: 30_000, waitMs: 10_000 })
      waiting = next()
      await sleep(50)
    }
    await held.release()
    await (await waiting).release()
  })
})

// B031, second part: a renewal whose answer came after the scope had ended was followed by others.
it('nothing is sent after the release when a renewal is answered late', async () => {
  const locks = await stand.locks({ port: stand.proxy.port })
  // The server has each script after it: a script sent again in full would be one request more.
  const warm = await locks.acquire('warm')
  await warm.renew()
  await warm.release()
  const sent = countRequests()
  let renewed = 0
  locks.on('renewed', () => {
    renewed += 1
  })
  await locks.using('k', { ttlMs: 30_000, renewEveryMs: 100 }, async () => {
    stand.proxy.delay('toClient', 200)
    const before = sent()
    await until(() => sent() > before, 'a renewal is under way')
  })
  const atEnd = sent()
  await sleep(2000)
  expect(sent()).toBe(atEnd)
  // Whoever was released is told nothing more.
  expect(renewed).toBe(0)
  expect(await lockKeys()).toEqual([])
})

async function lockKeys(): Promise<string[]> {
  return (await allKeys(stand.redis)).filter((key) => !key.includes('#hf:'))
}

async function subscribersOf(channel: string): Promise<number> {
  const [, count] = (await stand.redis.pubsub('NUMSUB', channel)) as [string, number]
  return Number(count)
}
