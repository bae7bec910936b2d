import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { memoryBackendWith } from '../../../src/backends/memory/memory.ts'
import type { Backend } from '../../../src/core/backend.ts'
import type { Lease, Locks } from '../../../src/core/lease.ts'
import { createLocksWith } from '../../../src/lock/lock.ts'
import {
  createVirtualClock,
  seamsOf,
  type VirtualClock,
} from '../../../src/testkit/virtual-clock.ts'

const TTL_MS = 1000
const NAME = 'contended'
const ROUNDS_MAX = 400

/** What one contender does once it holds the lock. */
type Plan = Readonly<{
  end: 'release' | 'forget' | 'release twice' | 'renew and release' | 'lose' | 'sleep through'
  waitMs: number
  abortAfterMs: number | null
  minHoldMs: number
}>

const plan: fc.Arbitrary<Plan> = fc.record({
  end: fc.constantFrom(
    'release',
    'release',
    'release twice',
    'renew and release',
    'lose',
    'sleep through',
    'forget',
  ),
  waitMs: fc.constantFrom(0, 50, 700, 5000),
  abortAfterMs: fc.option(fc.integer({ min: 0, max: 400 }), { nil: null, freq: 3 }),
  minHoldMs: fc.constantFrom(0, 0, 0, 300),
})

type Drops = Readonly<{ replies: readonly number[] }>

/** What the store did, owner by owner: who was granted, and whose grant was ended on request. */
class Ledger {
  readonly granted = new Set<string>()
  readonly ended = new Set<string>()

  record(backend: Backend): Backend {
    return {
      ...overNetwork(backend, { schedule: async () => {} } as never, { replies: [] }),
      tryAcquire: async (request) => {
        const result = await backend.tryAcquire(request)
        if (result.kind === 'granted') this.granted.add(request.owner)
        return result
      },
      handOver: async (grant, next, evenIfWanted) => {
        const result = await backend.handOver!(grant, next, evenIfWanted)
        if (result.kind !== 'not-held') this.ended.add(grant.owner)
        if (result.kind === 'handed-over') this.granted.add(next.owner)
        return result
      },
      release: async (grant, keepForMs) => {
        const result = await backend.release(grant, keepForMs)
        if (result === 'released') this.ended.add(grant.owner)
        return result
      },
      cancel: async (lockName, owner) => {
        await backend.cancel(lockName, owner)
        this.ended.add(owner)
      },
    }
  }
}

/** Every request and every reply travels at the scheduler's mercy; some replies never come. */
function overNetwork(backend: Backend, scheduler: fc.Scheduler, drops: Drops): Backend {
  let count = 0
  const send = async <T>(label: string, apply: () => Promise<T>): Promise<T> => {
    const number = count
    count += 1
    await scheduler.schedule(Promise.resolve(), `${label} ${number} arrives`)
    const answer = await apply()
    if (drops.replies.includes(number)) return new Promise(() => {})
    await scheduler.schedule(Promise.resolve(), `${label} ${number} answers`)
    return answer
  }
  return {
    capabilities: backend.capabilities,
    tryAcquire: (request) => send('acquire', () => backend.tryAcquire(request)),
    handOver: (grant, next, even) => send('hand-over', () => backend.handOver!(grant, next, even)),
    renew: (grant, ttlMs) => send('renew', () => backend.renew(grant, ttlMs)),
    release: (grant, keepForMs) => send('release', () => backend.release(grant, keepForMs)),
    cancel: (lockName, owner) => send('cancel', () => backend.cancel(lockName, owner)),
    wakeUp: (lockName, signal) => backend.wakeUp!(lockName, signal),
    proclaim: (lease, value) => backend.proclaim(lease, value),
    inspect: (lockName) => backend.inspect(lockName),
    list: (prefix, limit) => backend.list(prefix, limit),
    revoke: (request, seen) => backend.revoke(request, seen),
    raise: (lockName, token) => backend.raise(lockName, token),
    close: () => backend.close(),
  }
}

class World {
  readonly clock: VirtualClock = createVirtualClock()
  readonly store: Backend
  readonly locks: Locks
  readonly leases: Lease[] = []
  readonly ledger = new Ledger()
  readonly terminal = new Map<bigint, string[]>()
  outcomes = 0

  constructor(scheduler: fc.Scheduler, drops: Drops) {
    const seams = seamsOf(this.clock)
    this.store = memoryBackendWith(seams)
    this.locks = createLocksWith(
      seams,
      overNetwork(this.ledger.record(this.store), scheduler, drops),
    )
    this.locks.on('renewed', ({ fencingToken }) => {
      // Lost and released are final: nothing is said of the lease afterwards.
      expect(this.terminal.has(fencingToken)).toBe(false)
    })
    for (const type of ['lost', 'released'] as const) {
      this.locks.on(type, ({ fencingToken }) => {
        this.terminal.set(fencingToken, [...(this.terminal.get(fencingToken) ?? []), type])
      })
    }
  }

  /** Two believers at one moment would be two holders. */
  checkExclusion(): void {
    expect(this.leases.filter((lease) => lease.isHeld).length).toBeLessThanOrEqual(1)
  }

  async contend(one: Plan, also: readonly string[] = []): Promise<void> {
    const { end, waitMs, abortAfterMs, minHoldMs } = one
    const aborter = new AbortController()
    if (abortAfterMs !== null) this.clock.after(abortAfterMs, () => aborter.abort('left'))
    const options = { ttlMs: TTL_MS, waitMs, minHoldMs, signal: aborter.signal }
    let lease: Lease
    try {
      lease = await this.locks.acquire(NAME, options)
    } catch (error) {
      const code = error === 'left' ? 'left' : (error as { code?: string }).code
      expect([...also, 'left', 'LOCK_HELD', 'OUTCOME_UNKNOWN', 'BACKEND_UNAVAILABLE']).toContain(
        code,
      )
      return
    } finally {
      this.outcomes += 1
    }
    this.leases.push(lease)
    this.checkExclusion()
    await this.#end(lease, end)
  }

  async #end(lease: Lease, end: Plan['end']): Promise<void> {
    if (end === 'forget') return
    if (end === 'sleep through') this.clock.block(2 * TTL_MS)
    // Whether it succeeds depends on the schedule; what it leaves behind is checked at the end.
    if (end === 'renew and release') lease.renew().catch(() => 'refused')
    if (end === 'lose') await new Promise<void>((resolve) => this.clock.after(TTL_MS, resolve))
    const first = lease.release()
    if (end === 'release twice') expect(lease.release()).toBe(first)
    await first.catch((error) => expect(error).toHaveProperty('code'))
    expect(lease.isHeld).toBe(false)
  }

  /** Lets the scheduler and the clock take turns until nothing is left to do. */
  async settle(scheduler: fc.Scheduler): Promise<void> {
    for (let round = 0; round < ROUNDS_MAX; round += 1) {
      for (let burst = 0; burst < 3 && scheduler.count() > 0; burst += 1) {
        await scheduler.waitOne()
        this.checkExclusion()
      }
      await this.clock.advance(20)
      this.checkExclusion()
    }
    while (scheduler.count() > 0) await scheduler.waitOne()
  }
}

async function checkQuiet(world: World, plans: readonly Plan[]): Promise<void> {
  expect(world.outcomes).toBe(plans.length)
  const tokens = world.leases.map((lease) => lease.fencingToken)
  expect(new Set(tokens).size).toBe(tokens.length)
  expect(tokens).toEqual([...tokens].sort((a, b) => (a < b ? -1 : 1)))
  for (const lease of world.leases) {
    // A forgotten lease is renewed for as long as its process lives, and has no end yet.
    const ends = world.terminal.get(lease.fencingToken) ?? []
    expect(ends).toHaveLength(lease.isHeld ? 0 : 1)
  }
  // A grant that reached nobody was taken back by a request, not left to its TTL.
  const delivered = new Set(world.leases.map((lease) => lease.owner))
  for (const owner of world.ledger.granted) {
    if (!delivered.has(owner)) expect(world.ledger.ended).toContain(owner)
  }
  const forgotten = world.leases.some((lease) => lease.isHeld)
  if (!forgotten) expect(await world.store.inspect(NAME)).toBeNull()
}

describe('races', () => {
  it('leave one holder at most, rising tokens, one end a lease and no orphan, in any order of requests and replies', {
    timeout: 120_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(plan, { minLength: 2, maxLength: 5 }),
        fc.array(fc.nat(12), { maxLength: 2 }),
        async (scheduler, plans, replies) => {
          const world = new World(scheduler, { replies })
          const done = Promise.all(plans.map((one) => world.contend(one)))
          await world.settle(scheduler)
          await done
          await checkQuiet(world, plans)
        },
      ),
      { numRuns: 300 },
    )
  })

  // Closing while requests are under way must not leave a lease that nobody renews or releases.
  it('with close() end every lease and every contender, and leave nothing behind', {
    timeout: 120_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(plan, { minLength: 1, maxLength: 4 }),
        fc.nat(600),
        async (scheduler, plans, closeAfterMs) => {
          const world = new World(scheduler, { replies: [] })
          const ends = plans.map((one) => world.contend(one, ['CLOSED']))
          let closed: Promise<void> | null = null
          world.clock.after(closeAfterMs, () => {
            closed = world.locks.close()
          })
          await world.settle(scheduler)
          await closed
          await Promise.all(ends)
          expect(world.leases.some((lease) => lease.isHeld)).toBe(false)
          expect(await world.store.inspect(NAME)).toBeNull()
          await expect(world.locks.acquire(NAME)).rejects.toMatchObject({ code: 'CLOSED' })
        },
      ),
      { numRuns: 200 },
    )
  })
})
