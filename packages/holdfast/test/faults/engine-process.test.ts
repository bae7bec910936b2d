import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { redisBackend } from '../../src/redis.ts'
import { type Children, moduleUrl, openChildren } from '../support/child.ts'
import { allKeys, openClient, openInspector, until } from '../support/redis.ts'

let server: RedisServer
let inspector: Redis
let children: Children
const ends: (() => unknown)[] = []

beforeAll(async () => {
  server = await startRedis()
  inspector = await openInspector(server.port)
  children = await openChildren()
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
  await inspector.flushall()
})

afterAll(async () => {
  await children.remove()
  inspector.disconnect()
  await server.stop()
})

const CAREFUL = `{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false,
  maxRetriesPerRequest: 0 }`

/** A program with locks on Redis; the client's own connection is what may keep it alive. */
function onRedis(body: string, port = server.port): string {
  return `
import ioredis from ${moduleUrl('ioredis')}
import { createLocks } from './dist/index.js'
import { redisBackend } from './dist/redis.js'
const client = new ioredis.Redis({ host: '127.0.0.1', port: ${port}, ...${CAREFUL} })
client.on('error', () => {})
await new Promise((resolve) => client.once('ready', resolve))
const locks = createLocks(redisBackend(client, { subscriber: false }))
${body}
`
}

const IN_MEMORY = `
import { createLocks } from './dist/index.js'
import { memoryBackend } from './dist/backends/memory/memory.js'
const backend = memoryBackend()
`

describe('a process', () => {
  // B031: renewal and waiting timers kept the process alive after its work.
  it('that never releases ends by itself, and its lock ends one TTL later', async () => {
    const child = children.run(
      onRedis(`
        await locks.acquire('k', { ttlMs: 3000 })
        await locks.tryAcquire('other', { ttlMs: 3000, renew: false, maxHoldMs: 60_000 })
        client.quit()
      `),
    )
    const { code, stderr, afterMs } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    expect(afterMs).toBeLessThan(20_000)
    await until(async () => (await allKeys(inspector)).every((key) => key.includes('#hf:')), 'free')
  })

  it('is kept alive by a caller that waits, and by nothing else of ours', async () => {
    const child = children.run(`${IN_MEMORY}
      const locks = createLocks(backend)
      const begunAtMs = performance.now()
      await locks.acquire('k', { ttlMs: 60_000 })
      const waiting = locks.acquire('k', { ttlMs: 60_000, waitMs: 700 })
      const error = await waiting.catch((error) => error)
      console.log(error.code, performance.now() - begunAtMs >= 700)
    `)
    const { code, stdout, stderr, afterMs } = await child.ended
    expect([code, stdout.trim(), stderr]).toEqual([0, 'LOCK_HELD true', ''])
    expect(afterMs).toBeLessThan(20_000)
  })

  // B031, second part: a renewal whose reply came after the scope had ended armed a timer.
  it('sends nothing after the release, and keeps no timer, when a renewal is answered late', async () => {
    const child = children.run(`${IN_MEMORY}
      const sent = []
      const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
      const slow = {
        capabilities: backend.capabilities,
        tryAcquire: (request) => backend.tryAcquire(request),
        renew: async (grant, ttlMs) => {
          sent.push('renew')
          const answer = await backend.renew(grant, ttlMs)
          await wait(1500)
          return answer
        },
        release: async (grant, keepForMs) => {
          sent.push('release')
          return backend.release(grant, keepForMs)
        },
        cancel: async (lockName, owner) => backend.cancel(lockName, owner),
        close: async () => {},
      }
      const locks = createLocks(slow)
      const told = []
      for (const type of ['acquired', 'renewed', 'renewal-failed', 'lost', 'released']) {
        locks.on(type, () => told.push(type))
      }
      await locks.using('k', { ttlMs: 30_000, renewEveryMs: 2000 }, async () => {
        while (!sent.includes('renew')) await wait(1)
      })
      const before = sent.length
      process.on('exit', () => console.log(JSON.stringify({ sent, before, told })))
      globalThis.endedAt = performance.now()
      process.on('beforeExit', () => console.log(performance.now() - endedAt < 10_000))
    `)
    const { code, stdout, stderr } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    const [soon = '', log = ''] = stdout.trim().split('\n')
    expect(soon).toBe('true')
    expect(JSON.parse(log)).toEqual({
      sent: ['renew', 'release'],
      before: 2,
      told: ['acquired', 'released'],
    })
  })

  // The accident: a service stops because its Redis has gone, and stays for 2 s longer than close()
  // takes, which its platform answers with SIGKILL.
  it.each(['SIGSTOP', 'SIGKILL'])('ends soon after close() when Redis got %s', async (signal) => {
    const doomed = await startRedis()
    ends.push(() => doomed.stop())
    const child = children.run(`
import { connectWith } from './dist/connect/connect.js'
const load = async () => ({ module: await import(${moduleUrl('ioredis')}) })
const url = 'redis://127.0.0.1:${doomed.port}'
const locks = await connectWith({ load, version: () => '6.0.0' }, url)
await locks.using('k', async () => {})
process.kill(${doomed.pid}, '${signal}')
await locks.acquire('k', { waitMs: 300 }).catch(() => {})
await locks.close()
const closedAtMs = performance.now()
process.on('exit', () => console.log(performance.now() - closedAtMs))
    `)
    const { code, stdout, stderr } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    expect(Number(stdout)).toBeLessThan(1900)
  })

  // B032: the error of a renewal in a timer had no owner, and ended the process.
  it('outlives its store, without any listener, and is told by signal and by using', async () => {
    const doomed = await startRedis()
    ends.push(() => doomed.stop())
    const child = children.run(
      onRedis(
        `
        const forgotten = await locks.acquire('forgotten', { ttlMs: 1000 })
        const waiting = locks.acquire('forgotten', { ttlMs: 1000, waitMs: 2500 })
        const outcome = await locks.using('k', { ttlMs: 1000 }, async (lease) => {
          process.send('held')
          await new Promise((resolve) => lease.signal.addEventListener('abort', resolve))
          console.log(lease.signal.reason.code, lease.signal.reason.reason)
        }).then(() => 'success', (error) => error.code + ' ' + error.reason)
        console.log(outcome, forgotten.isHeld)
        console.log(await waiting.catch((error) => error.code))
        console.log(await forgotten.release())
        console.log(await locks.tryAcquire('k').catch((error) => error.code))
        await new Promise((resolve) => setTimeout(resolve, 2000))
        await locks.close()
        client.disconnect()
        `,
        doomed.port,
      ),
      ['--unhandled-rejections=strict'],
    )
    await child.sent('held')
    await doomed.kill()
    const { code, stdout, stderr } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    const lines = stdout.trim().split('\n')
    expect(lines.slice(0, 2)).toEqual(['LEASE_LOST expired', 'LEASE_LOST expired false'])
    expect(lines[2]).toMatch(/^(BACKEND_UNAVAILABLE|OUTCOME_UNKNOWN|LOCK_HELD)$/)
    expect(lines[3]).toBe('not-held')
    expect(lines[4]).toMatch(/^(BACKEND_UNAVAILABLE|OUTCOME_UNKNOWN)$/)
  })

  // B096, the engine's side: a pause outlived the lease, and the old holder went on when it woke.
  it('that was stopped past its lease finds itself lost in its first statement', async () => {
    const child = children.run(
      onRedis(`
        const lease = await locks.acquire('k', { ttlMs: 1000 })
        let aborted = false
        lease.signal.addEventListener('abort', () => { aborted = true })
        // Before the news goes out: it may be stopped in the very next statement.
        let last = performance.now()
        process.send('held')
        // Looks at every turn of the loop, as work does between two steps.
        for (;;) {
          await new Promise((resolve) => setImmediate(resolve))
          const now = performance.now()
          const gap = now - last
          last = now
          if (gap < 1500) continue
          try {
            lease.assertValid()
            console.log('wrote after a pause of', gap)
          } catch (error) {
            console.log(error.code, error.reason, aborted, lease.isHeld)
          }
          break
        }
        console.log(await lease.release())
        client.disconnect()
      `),
    )
    await child.sent('held')
    child.signal('SIGSTOP')
    const { client, end } = await openClient('ioredis 6', server.port)
    ends.push(end)
    const locks = createLocks(redisBackend(client, { subscriber: false }))
    const next = await locks.acquire('k', { ttlMs: 30_000, waitMs: 20_000 })
    await sleep(1500)
    child.signal('SIGCONT')
    const { code, stdout, stderr } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout.trim().split('\n')).toEqual(['LEASE_LOST expired true false', 'not-held'])
    // The sleeper tidied up after itself, and left the next holder alone.
    next.assertValid()
    expect((await locks.inspect('k'))?.fencingToken).toBe(next.fencingToken)
    expect(await next.release()).toBe('released')
    await locks.close()
  })

  // Plans for a day ahead kept every lease that had long been released.
  it('keeps nothing of a lease that has ended, nor of a contender that has left', async () => {
    const child = children.run(
      `${IN_MEMORY}
      const locks = createLocks(backend, { ttlMs: 86_400_000 })
      const gone = []
      const round = async (index) => {
        const lease = await locks.acquire('k' + index)
        const { signal } = new AbortController()
        const waiting = locks.acquire('k' + index, { waitMs: 1, signal }).catch((error) => error)
        gone.push(new WeakRef(lease), new WeakRef(signal), new WeakRef(await waiting))
        if (index % 2) await lease.release()
        else await locks.revoke('k' + index, { fencingToken: lease.fencingToken, reason: 'test' })
          .then((taken) => taken.release())
      }
      for (let index = 0; index < 300; index += 1) await round(index)
      for (let count = 0; count < 20; count += 1) {
        globalThis.gc()
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
      console.log(gone.filter((ref) => ref.deref() !== undefined).length)
    `,
      ['--expose-gc'],
    )
    const { code, stdout, stderr } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    // The last round may still stand on the stack.
    expect(Number(stdout.trim())).toBeLessThanOrEqual(6)
  })
})
