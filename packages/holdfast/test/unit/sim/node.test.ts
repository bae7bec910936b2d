/** What the model of a Redis node does beside running scripts. */
import { readdirSync } from 'node:fs'
import { beforeEach, describe, expect, it } from 'vitest'
import { redisBackendWith } from '../../../src/backends/redis/redis-backend.ts'
import { RENEW } from '../../../src/backends/redis/scripts/renew.ts'
import type { RedisScript } from '../../../src/clients/redis.ts'
import type { Backend } from '../../../src/core/backend.ts'
import { BackendUnavailableError, OutcomeUnknownError } from '../../../src/core/errors.ts'
import { type Carry, carryAtOnce, NodeClient } from '../../../src/sim/node/client.ts'
import { RedisNode } from '../../../src/sim/node/node.ts'
import { SCRIPT_MODELS } from '../../../src/sim/node/scripts/index.ts'
import { acquired, isTaken, request } from '../../../src/testkit/backend-harness.ts'
import {
  createVirtualClock,
  seamsOf,
  type VirtualClock,
} from '../../../src/testkit/virtual-clock.ts'

let clock: VirtualClock
let node: RedisNode

beforeEach(() => {
  clock = createVirtualClock()
  node = new RedisNode(seamsOf(clock))
})

function backendOn(carry: Carry = carryAtOnce): Backend {
  return redisBackendWith(seamsOf(clock), new NodeClient(node, carry), { subscriber: false })
}

describe('the model of a Redis node', () => {
  // The accident: a script is added, and the simulation runs without it.
  it('has a model of every script that the backend can send, and of no other text', async () => {
    const names = new Set<string>()
    for (const backend of ['redis', 'redlock']) {
      const folder = new URL(`../../../src/backends/${backend}/scripts/`, import.meta.url)
      for (const file of readdirSync(folder)) {
        const module = (await import(new URL(file, folder).href)) as Record<string, unknown>
        for (const one of Object.values(module)) {
          if (typeof one === 'object') names.add((one as RedisScript).sha1)
        }
      }
    }
    expect([...names].sort()).toEqual([...SCRIPT_MODELS.keys()].sort())
    const client = new NodeClient(node)
    await expect(client.eval('return 1', 0)).rejects.toThrow(TypeError)
  })

  it('knows a script by its SHA-1 once it has had the text, until it forgets or restarts', async () => {
    const client = new NodeClient(node)
    const byName = () => client.evalsha(RENEW.sha1, 1, 'a', 'mark', '1000', '1')
    await expect(byName()).rejects.toThrow(/^NOSCRIPT /)
    await client.eval(RENEW.lua, 1, 'a', 'mark', '1000', '1')
    expect(await byName()).toBe('expired')
    node.forgetScripts()
    await expect(byName()).rejects.toThrow(/^NOSCRIPT /)
  })

  it('ends a lock by its own wall clock: early after a jump forward, late after one back', async () => {
    const backend = backendOn()
    await acquired(backend, 'forward', { ttlMs: 60_000 })
    node.clock.step(60_001_000)
    expect(await isTaken(backend, 'forward')).toBe(false)
    await acquired(backend, 'back', { ttlMs: 60_000 })
    node.clock.step(-30_000_000)
    await clock.advance(60_001)
    expect(await isTaken(backend, 'back')).toBe(true)
    await clock.advance(30_000)
    expect(await isTaken(backend, 'back')).toBe(false)
  })

  it('ends a lock sooner where its clock runs faster', async () => {
    const backend = backendOn()
    node.clock.setRate(1.01)
    await acquired(backend, 'a', { ttlMs: 100_000 })
    await clock.advance(98_900)
    expect(await isTaken(backend, 'a')).toBe(true)
    await clock.advance(200)
    expect(await isTaken(backend, 'a')).toBe(false)
  })

  it('comes back from a restart as another server, empty or not', async () => {
    const backend = backendOn()
    const runId = node.runId
    await acquired(backend, 'a')
    node.stop()
    await expect(isTaken(backend, 'a')).rejects.toThrow(BackendUnavailableError)
    node.start(true)
    expect(await isTaken(backend, 'a')).toBe(true)
    node.stop()
    node.start(false)
    expect(await isTaken(backend, 'a')).toBe(false)
    expect(node.runId).toMatch(/^[0-9a-f]{40}$/)
    expect(node.runId).not.toBe(runId)
  })

  // The accident: a request on its way when the connection ends is taken for one that was not sent.
  it('leaves a request unknown whose connection ends under way, and does not run it later', async () => {
    const arrivals: (() => void)[] = []
    const slow: Carry = (deliver) =>
      new Promise((resolve, reject) => {
        arrivals.push(() => Promise.resolve().then(deliver).then(resolve, reject))
      })
    const outcome = backendOn(slow)
      .tryAcquire(request('a'))
      .catch((error: unknown) => error)
    node.stop()
    node.start(true)
    expect(await outcome).toBeInstanceOf(OutcomeUnknownError)
    for (const arrive of arrivals) arrive()
    expect(arrivals).toHaveLength(1)
    expect(await isTaken(backendOn(), 'a')).toBe(false)
  })

  it('takes no write as a replica, and under OOM only what begins with a DEL', async () => {
    const backend = backendOn()
    const grant = await acquired(backend, 'a')
    node.isReadOnly = true
    await expect(backend.release(grant, 0)).rejects.toThrow(BackendUnavailableError)
    node.isReadOnly = false
    node.isOutOfMemory = true
    await expect(backend.tryAcquire(request('b'))).rejects.toThrow(BackendUnavailableError)
    await backend.cancel('c', request('c').owner)
    expect(await backend.release(grant, 0)).toBe('released')
  })

  it('tells a subscriber of a release that somebody waits for', async () => {
    const client = new NodeClient(node)
    const channels: unknown[] = []
    client.on('message', (channel) => channels.push(channel))
    await client.subscribe('lock:a')
    const backend = backendOn()
    const grant = await acquired(backend, 'a')
    await backend.tryAcquire(request('a', { waits: true }))
    await backend.release(grant, 0)
    await clock.advance(0)
    expect(channels).toEqual(['lock:a'])
  })
})
