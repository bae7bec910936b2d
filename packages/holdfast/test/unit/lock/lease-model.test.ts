import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { memoryBackendWith } from '../../../src/backends/memory/memory.ts'
import type { Backend, RenewResult } from '../../../src/core/backend.ts'
import { LeaseLostError } from '../../../src/core/errors.ts'
import type { Lease, LeaseOptions } from '../../../src/core/lease.ts'
import { lifeMs } from '../../../src/core/validity.ts'
import { createLocksWith } from '../../../src/lock/lock.ts'
import {
  createVirtualClock,
  seamsOf,
  type VirtualClock,
} from '../../../src/testkit/virtual-clock.ts'

const TTL_MS = 1000
const LIFE_MS = lifeMs(TTL_MS)
const MAX_HOLD_MS = 6000
/** The boot clock's grain, at both ends of an interval. */
const GRAIN_MS = 20

type Store = 'well' | 'down' | 'hung' | 'lost'

/** What the lease must be, computed from nothing but the store's answers and the clocks. */
class Model {
  readonly clock: VirtualClock
  readonly beganAtMs: number
  readonly beganBootMs: number
  goodAtMs: number
  goodBootMs: number
  store: Store = 'well'
  ended: 'lost' | 'released' | null = null
  readonly events: string[] = []
  hasSlept = false

  constructor(clock: VirtualClock) {
    this.clock = clock
    this.beganAtMs = this.goodAtMs = clock.nowMs()
    this.beganBootMs = this.goodBootMs = clock.bootMs()
  }

  sinceGoodMs(): number {
    return Math.max(this.clock.nowMs() - this.goodAtMs, this.clock.bootMs() - this.goodBootMs)
  }

  sinceBeginMs(): number {
    return Math.max(this.clock.nowMs() - this.beganAtMs, this.clock.bootMs() - this.beganBootMs)
  }
}

type Real = { lease: Lease; signal: AbortSignal; wasLost: boolean }

/** The invariants that must hold after every step, whatever the step was. */
function check(model: Model, real: Real): void {
  const { lease, signal } = real
  const isHeld = lease.isHeld
  if (isHeld) {
    expect(model.ended).toBeNull()
    expect(model.sinceGoodMs()).toBeLessThan(LIFE_MS + GRAIN_MS)
    expect(model.sinceBeginMs()).toBeLessThan(MAX_HOLD_MS + GRAIN_MS)
    expect(signal.aborted).toBe(false)
    expect(lease.remainingMs()).toBeGreaterThan(0)
    expect(lease.remainingMs()).toBeLessThanOrEqual(LIFE_MS)
    return
  }
  expect(lease.remainingMs()).toBe(0)
  expect(() => lease.assertValid()).toThrow(LeaseLostError)
  const terminal = model.events.filter((type) => type === 'lost' || type === 'released')
  expect(terminal).toHaveLength(1)
  // L1: final. What it was once, it stays.
  if (model.ended === null) {
    model.ended = terminal[0] as 'lost' | 'released'
    // After a suspend the boot clock's grain counts against the holder.
    const earlyMs = model.hasSlept ? GRAIN_MS : 0
    const ranOut =
      model.sinceGoodMs() + earlyMs >= LIFE_MS || model.sinceBeginMs() + earlyMs >= MAX_HOLD_MS
    if (model.ended === 'lost') expect(ranOut || model.store === 'lost' || real.wasLost).toBe(true)
  }
  expect(terminal[0]).toBe(model.ended)
  expect(signal.aborted).toBe(model.ended === 'lost')
}

class Advance implements fc.AsyncCommand<Model, Real> {
  readonly ms: number
  constructor(ms: number) {
    this.ms = ms
  }
  check = (): boolean => true
  async run(model: Model, real: Real): Promise<void> {
    await model.clock.advance(this.ms)
    check(model, real)
  }
  toString = (): string => `advance(${this.ms})`
}

class Stall implements fc.AsyncCommand<Model, Real> {
  readonly kind: 'block' | 'suspend'
  readonly ms: number
  constructor(kind: 'block' | 'suspend', ms: number) {
    this.kind = kind
    this.ms = ms
  }
  check = (): boolean => true
  async run(model: Model, real: Real): Promise<void> {
    if (this.kind === 'block') model.clock.block(this.ms)
    else model.clock.suspend(this.ms)
    model.hasSlept ||= this.kind === 'suspend'
    // No timer has run: the lease must know by comparing clocks on the spot.
    check(model, real)
  }
  toString = (): string => `${this.kind}(${this.ms})`
}

class Becomes implements fc.AsyncCommand<Model, Real> {
  readonly store: Store
  constructor(store: Store) {
    this.store = store
  }
  check = (): boolean => true
  async run(model: Model, real: Real): Promise<void> {
    model.store = this.store
    if (this.store === 'lost') real.wasLost = true
    check(model, real)
  }
  toString = (): string => `store is ${this.store}`
}

class Renew implements fc.AsyncCommand<Model, Real> {
  check = (): boolean => true
  async run(model: Model, real: Real): Promise<void> {
    const renewal = real.lease.renew().then(
      () => expect(real.lease.isHeld).toBe(true),
      (error) => expect(error).toHaveProperty('code'),
    )
    await model.clock.advance(TTL_MS / 10)
    await renewal
    check(model, real)
  }
  toString = (): string => 'renew()'
}

class Release implements fc.AsyncCommand<Model, Real> {
  check = (): boolean => true
  async run(model: Model, real: Real): Promise<void> {
    const wasHeld = real.lease.isHeld
    const first = real.lease.release()
    expect(real.lease.release()).toBe(first)
    await model.clock.advance(2000)
    const answer = await first.catch(() => 'unconfirmed')
    if (!wasHeld && model.ended === 'lost') expect(answer).toBe('not-held')
    check(model, real)
  }
  toString = (): string => 'release()'
}

/** The memory store, reached through a line that can be down, hung, or lead to a store that forgot. */
function lineTo(backend: Backend, model: () => Model): Backend {
  return {
    ...bind(backend),
    async renew(grant, ttlMs): Promise<RenewResult> {
      const { clock, store } = model()
      const at = { now: clock.nowMs(), boot: clock.bootMs() }
      if (store === 'down') throw new Error('connection refused')
      if (store === 'hung') return new Promise(() => {})
      if (store === 'lost') return { kind: 'lost', reason: 'superseded' }
      const answer = await backend.renew(grant, ttlMs)
      if (answer.kind === 'renewed') {
        model().goodAtMs = at.now
        model().goodBootMs = at.boot
      }
      return answer
    },
  }
}

function bind(backend: Backend): Backend {
  return {
    capabilities: backend.capabilities,
    tryAcquire: (request) => backend.tryAcquire(request),
    renew: (grant, ttlMs) => backend.renew(grant, ttlMs),
    release: (grant, keepForMs) => backend.release(grant, keepForMs),
    cancel: (lockName, owner) => backend.cancel(lockName, owner),
    proclaim: (lease, value) => backend.proclaim(lease, value),
    inspect: (lockName) => backend.inspect(lockName),
    list: (prefix, limit) => backend.list(prefix, limit),
    revoke: (request, seen) => backend.revoke(request, seen),
    raise: (lockName, token) => backend.raise(lockName, token),
    close: () => backend.close(),
  }
}

async function setUp(options: LeaseOptions): Promise<{ model: Model; real: Real }> {
  const clock = createVirtualClock()
  const seams = seamsOf(clock)
  const model = new Model(clock)
  const locks = createLocksWith(
    seams,
    lineTo(memoryBackendWith(seams), () => model),
  )
  for (const type of ['lost', 'released'] as const) locks.on(type, () => model.events.push(type))
  const lease = (await locks.tryAcquire('model', options)) as Lease
  return { model, real: { lease, signal: lease.signal, wasLost: false } }
}

const commands = [
  fc.integer({ min: 1, max: 1500 }).map((ms) => new Advance(ms)),
  fc.integer({ min: 1, max: 1500 }).map((ms) => new Stall('block', ms)),
  fc.integer({ min: 1, max: 1500 }).map((ms) => new Stall('suspend', ms)),
  fc.constantFrom<Store>('well', 'down', 'hung', 'lost').map((store) => new Becomes(store)),
  fc.constant(new Renew()),
  fc.constant(new Release()),
]

describe('the state machine of a lease', () => {
  it.each([{ renew: true }, { renew: false }])(
    'keeps its invariants under any history of clocks, store and holder (%o)',
    async (options) => {
      const leaseOptions = { ttlMs: TTL_MS, maxHoldMs: MAX_HOLD_MS, ...options }
      await fc.assert(
        fc.asyncProperty(fc.commands(commands, { maxCommands: 25 }), async (history) => {
          const made = await setUp(leaseOptions)
          await fc.asyncModelRun(() => made, history)
        }),
        { numRuns: 300 },
      )
    },
  )

  // Without this the machine above could hold by never keeping a lease at all.
  it('keeps a lease for as long as its store answers', async () => {
    const { model, real } = await setUp({ ttlMs: TTL_MS, maxHoldMs: MAX_HOLD_MS })
    for (let round = 0; round < 11; round += 1) {
      await model.clock.advance(500)
      expect(real.lease.isHeld).toBe(true)
    }
    await model.clock.advance(600)
    expect(real.lease.isHeld).toBe(false)
    expect(real.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'max-hold' })
  })
})
