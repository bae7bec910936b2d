import { describe, expect, it } from 'vitest'
import { BackendUnavailableError, LockError } from '../../src/core/errors.ts'
import type { Lease } from '../../src/core/lease.ts'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import {
  appliedButHears,
  delayed,
  type Fault,
  lostReply,
  lostRequest,
  type Method,
  refusedWith,
} from '../support/faulty-backend.ts'
import { type Engine, openWorld, timersLeft, type World } from '../support/open-engine.ts'

const NAMES = ['a', 'b', 'c']
const METHODS: Method[] = [
  'tryAcquire',
  'handOver',
  'renew',
  'release',
  'cancel',
  'wakeUp',
  'revoke',
]
const STEPS = 400
/** So long that what is left behind with it is still there at the end. */
const LONG_MS = 60_000
/** By then every undo has had its turn: a request of 2 s, a delay of 2 s, and once more. */
const UNDONE_MS = 10_000
const CODES = ['LOCK_HELD', 'OUTCOME_UNKNOWN', 'BACKEND_UNAVAILABLE', 'LEASE_LOST', 'CLOSED']

/** A small generator of its own, so that a failing seed can be run again. */
function randomFrom(seed: number): (below: number) => number {
  let state = seed
  return (below) => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) | 0
    return Math.floor(((state >>> 0) / 2 ** 32) * below)
  }
}

class Storm {
  readonly world: World
  readonly engines: Engine[]
  readonly random: (below: number) => number
  readonly leases: Lease[] = []
  readonly grants = new Map<string, bigint[]>()
  readonly failures: string[] = []
  begun = 0
  settled = 0

  constructor(seed: number) {
    this.random = randomFrom(seed)
    this.world = openWorld({ seed })
    const open = (without: readonly ('handOver' | 'wakeUp')[]): Engine =>
      this.world.engine({ without })
    this.engines = [open([]), open([]), open(['handOver', 'wakeUp'])]
  }

  pick<T>(list: readonly T[]): T {
    return list[this.random(list.length)] as T
  }

  /** Counts a call that must settle, with an error of ours or the reason of its own signal. */
  follow(what: string, call: Promise<unknown>): void {
    this.begun += 1
    call.then(
      () => {
        this.settled += 1
      },
      (error: unknown) => {
        this.settled += 1
        const known = error instanceof LockError && CODES.includes(error.code)
        if (!known && error !== 'left') this.failures.push(`${what}: ${String(error)}`)
      },
    )
  }

  /** Two believers at one moment would be two holders. */
  check(): void {
    for (const name of NAMES) {
      const held = this.leases.filter((lease) => lease.lockName === name && lease.isHeld)
      if (held.length > 1) this.failures.push(`${held.length} holders of ${name}`)
    }
  }

  async hold(lease: Lease | null): Promise<void> {
    if (lease === null) return
    this.leases.push(lease)
    this.check()
    const holdMs = this.random(600)
    await new Promise<void>((resolve) => this.world.clock.after(holdMs, resolve))
    this.check()
    if (this.random(4) === 0) await lease.renew(this.pick([200, 500, 1000])).catch(() => undefined)
    // Some forget; see `letGo`. Not for so long that nobody else has a turn.
    if (this.random(8) > 0 || lease.remainingMs() > 1000) await lease.release()
  }

  /** Whoever got a lease gives it back; what is still in the store then is nobody's. */
  letGo(): void {
    for (const lease of this.leases) this.follow('late', lease.release())
  }

  ask(): void {
    const { locks } = this.pick(this.engines)
    const name = this.pick(NAMES)
    const aborter = new AbortController()
    if (this.random(4) === 0) this.world.clock.after(this.random(500), () => aborter.abort('left'))
    const ttlMs = this.pick([100, 300, 1000, LONG_MS])
    const options = {
      ttlMs,
      waitMs: this.pick([0, 50, 500, 3000]),
      minHoldMs: this.pick([0, 0, 0, 200]),
      lockDelayMs: this.pick([0, 0, 0, 150]),
      maxHoldMs: this.pick([ttlMs, 3 * LONG_MS]),
      renew: this.random(3) > 0,
      signal: aborter.signal,
    }
    const { waitMs: _, ...single } = options
    const way = this.random(4)
    if (way === 0)
      this.follow(
        'try',
        locks.tryAcquire(name, single).then((one) => this.hold(one)),
      )
    else if (way === 1)
      this.follow(
        'using',
        locks.using(name, options, (one) => this.hold(one)),
      )
    else
      this.follow(
        'acquire',
        locks.acquire(name, options).then((one) => this.hold(one)),
      )
  }

  async revoke(): Promise<void> {
    const seen = await this.world.store.inspect(this.pick(NAMES))
    if (!seen?.fencingToken) return
    const { lockName, fencingToken } = seen
    const { locks } = this.pick(this.engines)
    const taking = locks.revoke(lockName, { fencingToken, reason: 'storm' })
    this.follow(
      'revoke',
      taking.then((one) => this.hold(one)),
    )
  }

  fault(): Fault {
    const seams = seamsOf(this.world.clock)
    return this.pick<() => Fault>([
      () => lostRequest,
      () => lostReply,
      () => refusedWith(new BackendUnavailableError('down', 'refused')),
      () => refusedWith(new Error('reset')),
      () => appliedButHears(new Error('reset')),
      () => delayed(seams, this.random(80), this.random(80)),
      () => delayed(seams, this.random(800), this.random(800)),
    ])()
  }

  async step(): Promise<void> {
    const { clock, store } = this.world
    const action = this.random(40)
    if (action < 14) this.ask()
    else if (action < 24) this.pick(this.engines).backend.next(this.pick(METHODS), this.fault())
    else if (action === 24) clock.block(this.random(400))
    else if (action === 25) clock.suspend(this.random(400))
    else if (action === 26) clock.stepWall(this.random(4000) - 2000)
    else if (action === 28) await this.revoke()
    else if (action === 27) {
      const lease = this.pick([...this.leases, null])
      // As a flush or an eviction would: its holder must find out.
      if (lease && !lease.isHeld) await store.cancel(lease.lockName, lease.owner)
    } else await clock.advance(this.random(60))
    this.check()
  }

  /** Every story has one beginning, one end after it, and nothing after that. */
  checkStories(): void {
    const stories = new Map<string, string[]>()
    for (const { told } of this.engines) {
      for (const { type, fencingToken, lockName } of told) {
        if (fencingToken === null) continue
        const key = `${lockName} ${fencingToken}`
        stories.set(key, [...(stories.get(key) ?? []), type])
      }
    }
    for (const [key, types] of stories) {
      const ends = types.filter((type) => type === 'lost' || type === 'released')
      const isWhole = types[0] === 'acquired' && ends.length === 1 && types.at(-1) === ends[0]
      if (!isWhole) this.failures.push(`${key}: ${types.join(' ')}`)
    }
  }
}

describe('a storm of calls, faults and pauses', () => {
  for (let seed = 1; seed <= 24; seed += 1) {
    // No single accident, but all of them at once, in an order that nobody has thought of.
    it(`leaves one holder at a time, whole stories and nothing behind (seed ${seed})`, async () => {
      const storm = new Storm(seed)
      const { clock, store } = storm.world
      for (let count = 0; count < STEPS; count += 1) await storm.step()
      const closing = storm.engines[storm.random(3)] as Engine
      storm.follow('close', closing.locks.close())
      for (const { backend } of storm.engines) {
        for (const method of METHODS) backend.forget(method)
      }
      for (let count = 0; count < UNDONE_MS / 100; count += 1) {
        await clock.advance(100)
        storm.check()
        if (count === 40) storm.letGo()
      }
      expect(storm.failures).toEqual([])
      expect([storm.settled, storm.begun]).toEqual([storm.begun, storm.begun])
      storm.checkStories()
      expect(storm.failures).toEqual([])
      for (const name of NAMES) {
        expect(await store.inspect(name)).toBeNull()
        const lease = await (storm.engines.find((one) => one !== closing) as Engine).locks.acquire(
          name,
        )
        expect(lease.isHeld).toBe(true)
        await lease.release()
      }
      expect(await timersLeft(clock)).toBe(0)
      // A storm in which nothing is granted shows nothing.
      expect(storm.leases.length).toBeGreaterThan(5)
    })
  }
})
