import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { emitLibrary } from '../../../../scripts/lib/emit.mjs'
import { randomOwner } from '../../src/core/owner.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { killedChildText } from '../support/killed-child.ts'
import { allKeys, CLIENT_NAMES, keysWithoutTtl, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()

const LONG_MS = 60_000

describe('a process that is killed', () => {
  // B017: acquire and release were several commands; a process that died between two of them left a
  // name that nobody could ever have again.
  it('at any moment of 300, leaves no key without an end', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-killed-'))
    stand.ends.push(() => rmSync(folder, { recursive: true, force: true }))
    await emitLibrary(join(folder, 'dist'))
    writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
    writeFileSync(join(folder, 'child.js'), killedChildText(stand.server.port))
    let kills = 0
    let scriptsMin = 0
    const lane = async (): Promise<void> => {
      while (kills < 300) {
        kills += 1
        const scripts = 1 + (kills % 40)
        scriptsMin += scripts
        expect(await killAmid(join(folder, 'child.js'), scripts)).toBe('SIGKILL')
      }
    }
    await Promise.all([lane(), lane(), lane()])
    expect(kills).toBeGreaterThanOrEqual(300)
    // However slow the machine is: each was killed in its work, not before it.
    expect(scriptsMin).toBeGreaterThan(5000)
    const scripts = /cmdstat_evalsha:calls=(\d+)/.exec(await stand.redis.info('commandstats'))?.[1]
    expect(Number(scripts)).toBeGreaterThanOrEqual(scriptsMin)
    expect(await keysWithoutTtl(stand.redis)).toEqual([])
    // Everything is free one TTL later.
    await sleep(1100)
    expect((await allKeys(stand.redis)).filter((key) => !key.includes('#hf:'))).toEqual([])
    const backend = await stand.backend()
    for (let index = 0; index < 3; index++) await acquired(backend, `n${index}`)
  }, 300_000)
})

/** Kills it at any moment after so many scripts. Resolves with what ended it. */
async function killAmid(path: string, scripts: number): Promise<string | null> {
  const child: ChildProcess = spawn(process.execPath, [path, `${scripts}`], {
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const ended = new Promise<string | null>((resolve) => {
    child.once('exit', (_, signal) => resolve(signal))
  })
  await Promise.race([new Promise((resolve) => child.once('message', resolve)), ended])
  await sleep(Math.random() * 5)
  child.kill('SIGKILL')
  return ended
}

describe.each(CLIENT_NAMES)('%s: an attempt without an answer', (name) => {
  // B041, for one node: who was not told "granted" was not cleaned up after, and the next contender
  // was refused until the TTL.
  it('is undone, and the next contender need not wait for its TTL', async () => {
    const locks = await stand.locks({ name, port: stand.proxy.port })
    await acquired(locks.backend, 'warm')
    stand.proxy.drop('toClient')
    const failure = locks.tryAcquire('k', { ttlMs: 30_000 }).catch((error: unknown) => error)
    await until(async () => (await stand.redis.exists('lock:k')) === 1, 'it was executed')
    stand.proxy.reset()
    stand.proxy.heal()
    expect(await failure).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    await until(async () => (await stand.redis.exists('lock:k')) === 0, 'it is undone', 20_000)
    await acquired(await stand.backend(), 'k')
  })

  // B023: the caller had left; the answer came, and the lock was held and renewed without end.
  it('because its caller left, holds nothing afterwards', async () => {
    const locks = await stand.locks({ name, port: stand.proxy.port })
    await acquired(locks.backend, 'warm')
    stand.proxy.delay('toClient', 50)
    const renewals: unknown[] = []
    locks.on('renewed', (event) => renewals.push(event))
    const outcomes = await Promise.all(
      Array.from({ length: 100 }, async (_, index) => {
        const controller = new AbortController()
        const waiting = locks.acquire(`k${index}`, { ttlMs: 1000, signal: controller.signal })
        const failure = waiting.then(
          (lease) => lease.release(),
          (error: unknown) => error,
        )
        await sleep(Math.random() * 3)
        controller.abort(new Error('left'))
        return failure
      }),
    )
    expect(outcomes).toEqual(outcomes.map(() => new Error('left')))
    await until(
      async () =>
        (await allKeys(stand.redis)).every((key) => key.includes('#hf:') || key === 'lock:warm'),
      'nothing is held',
    )
    await sleep(500)
    expect(renewals).toEqual([])
    expect(await keysWithoutTtl(stand.redis)).toEqual([])
  })
})

describe('tombstones', () => {
  // A store that answers too late, and contenders that give up: 112 bytes each, without a bound.
  it('of one process are bounded: then attempts are refused by name, and go on when they end', async () => {
    const backend = await stand.backend({ limits: { tombstonesMax: 2000 } })
    const grant = await acquired(backend, 'held')
    const owners = Array.from({ length: 2000 }, randomOwner)
    await Promise.all(owners.map((owner) => backend.cancel('k', owner)))
    await expect(backend.tryAcquire(request('k'))).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'backlog',
    })
    const handing = async () => backend.handOver?.(grant, request('held'), true)
    await expect(handing()).rejects.toMatchObject({ why: 'backlog' })
    // What is held can be renewed and released, and what was sent can be undone.
    expect(await backend.renew(grant, LONG_MS)).toMatchObject({ kind: 'renewed' })
    await backend.cancel('k', randomOwner())
    expect(await backend.release(grant, 0)).toBe('released')
    const keys = await allKeys(stand.redis)
    expect(keys.filter((key) => key.startsWith('lock:#hf:cancel:')).length).toBe(2001)
    expect(await keysWithoutTtl(stand.redis)).toEqual([])
  })

  it('are not left by releases', async () => {
    const backend = await stand.backend()
    for (let index = 0; index < 100; index++) {
      const grant = await acquired(backend, 'k')
      await backend.release(grant, index % 3 === 0 ? 1 : 0)
      await until(async () => (await stand.redis.exists('lock:k')) === 0, 'it is free')
    }
    expect((await allKeys(stand.redis)).filter((key) => key.includes('cancel'))).toEqual([])
  })
})
