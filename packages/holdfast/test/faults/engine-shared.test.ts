import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { startRedis } from '../../../cli/src/lab/servers/index.ts'
import { memoryBackend } from '../../src/backends/memory/memory.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { Locks } from '../../src/core/lease.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { redisBackend } from '../../src/redis.ts'

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function openRedis(): Promise<Backend> {
  const server = await startRedis()
  ends.push(() => server.stop())
  const client = new Redis(server.port, '127.0.0.1')
  ends.push(() => client.disconnect())
  return redisBackend(client)
}

/** Three callers of one engine that pass the lock to each other until told to stop. */
function takeTurns(locks: Locks): { turns: () => number; stop: () => Promise<void> } {
  let turns = 0
  let stopped = false
  const loop = async (): Promise<void> => {
    // Bounded by the test's own end, and by this count if that never comes.
    for (let left = 20_000; left > 0 && !stopped; left -= 1) {
      await locks.using('shared', async () => {
        turns += 1
        await sleep(2)
      })
    }
  }
  const loops = [loop(), loop(), loop()]
  return {
    turns: () => turns,
    stop: async () => {
      stopped = true
      await Promise.all(loops)
    },
  }
}

describe('two createLocks on one backend', () => {
  // The mark that a contender leaves named the backend, not the engine: hand-overs of the first never
  // saw the second, which starved until its wait was over.
  it.each([
    ['memory', async () => memoryBackend()],
    ['redis', openRedis],
  ] as const)('wait against each other like two processes (%s)', async (_, open) => {
    const backend = await open()
    const first = createLocks(backend, { ttlMs: 10_000 })
    const second = createLocks(backend, { ttlMs: 10_000 })
    ends.push(() => Promise.all([first.close(), second.close()]))
    const busy = takeTurns(first)
    await sleep(100)
    const before = busy.turns()
    const lease = await second.acquire('shared', { waitMs: 30_000 })
    const turns = busy.turns() - before
    await lease.release()
    await busy.stop()
    // At most the line as it stood when the other was seen, at most 64; a few tries may go wrong.
    expect(turns).toBeLessThan(300)
  })

  // Closing the first ended the connection for push: the waiters of the second slept on until a poll.
  it('end the backend with the last of them, not with the first', async () => {
    const backend = await openRedis()
    const close = vi.spyOn(backend, 'close')
    const [first, second] = [createLocks(backend), createLocks(backend)]
    await first.close()
    await first.close()
    expect(close).not.toHaveBeenCalled()
    const lease = await second.acquire('a')
    expect(await lease.release()).toBe('released')
    await second.close()
    expect(close).toHaveBeenCalledTimes(1)
  })

  // A setting is warned of once, at the first use; whoever came later never heard of it.
  it('both hear what the backend warns of, also a listener that comes later', async () => {
    const backend = await openRedis()
    const first = createLocks(backend)
    ends.push(() => first.close())
    await (await first.acquire('a')).release()
    const second = createLocks(backend)
    ends.push(() => second.close())
    const heard: string[] = []
    first.on('warning', ({ option }) => heard.push(`first ${option}`))
    second.on('warning', ({ option }) => heard.push(`second ${option}`))
    const stop = second.on('warning', ({ option }) => heard.push(`gone ${option}`))
    stop()
    await sleep(1)
    expect(heard).toContain('first enableOfflineQueue')
    expect(heard).toContain('second enableOfflineQueue')
    expect(heard.filter((one) => one.startsWith('gone'))).toEqual([])
  })
})

describe('a listener', () => {
  // The set of listeners was walked while it grew: one event, calls without end.
  it('that subscribes from inside itself is called once an event', async () => {
    const locks = createLocks(memoryBackend())
    let calls = 0
    let off = (): void => {}
    const listener = (): void => {
      calls += 1
      off()
      if (calls < 100) off = locks.on('acquired', listener)
    }
    off = locks.on('acquired', listener)
    await (await locks.acquire('a')).release()
    expect(calls).toBe(1)
    await (await locks.acquire('a')).release()
    expect(calls).toBe(2)
  })
})

describe('an error as JSON', () => {
  it('never makes the logger throw, whatever fn returned', async () => {
    const locks = createLocks(memoryBackend())
    for (const value of [5n, { circular: {} as unknown }, () => 1, new Error('inner')]) {
      if (typeof value === 'object' && 'circular' in value) value.circular = value
      const lost = locks.using('a', { ttlMs: 100, renew: false }, async (lease) => {
        while (lease.isHeld) await sleep(10)
        return value
      })
      const error = await lost.catch((reason: unknown) => reason)
      const json = JSON.parse(JSON.stringify(error))
      expect(json).toMatchObject({ code: 'LEASE_LOST', settled: { status: 'fulfilled' } })
    }
  })

  // A client given in the wrong place was written out with its password.
  it('names an object that was passed in, and does not show what is in it', () => {
    const wrong = { options: { password: 'geheim' }, self: null as unknown }
    wrong.self = wrong
    expect(() => redisBackend(wrong as never)).toThrow(
      expect.objectContaining({ code: 'INVALID_ARGUMENT' }),
    )
    try {
      redisBackend(wrong as never)
    } catch (error) {
      expect(JSON.stringify(error)).toContain('an object (Object)')
      expect(JSON.stringify(error)).not.toContain('geheim')
    }
  })
})

describe('a caller without types', () => {
  it.each([{}, null, 5, { tryAcquire() {} }, { ...memoryBackend(), capabilities: undefined }])(
    'who passes %o for a backend is told so',
    (backend) => {
      expect(() => createLocks(backend as never)).toThrow(
        expect.objectContaining({ code: 'INVALID_ARGUMENT', option: 'backend' }),
      )
    },
  )
})
