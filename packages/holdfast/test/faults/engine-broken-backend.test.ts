import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { InvariantError } from '../../src/core/assert.ts'
import type { Grant } from '../../src/core/backend.ts'
import { LockError } from '../../src/core/errors.ts'
import type { Lease } from '../../src/core/lease.ts'
import type { Seams } from '../../src/core/seams.ts'
import { seamsOf } from '../../src/testkit/virtual-clock.ts'
import {
  answering,
  type Fault,
  lostRequest,
  type Method,
  refusedWith,
  throwing,
} from '../support/faulty-backend.ts'
import { openWorld, timersLeft, type Watched, watch } from '../support/open-engine.ts'

const TTL = { ttlMs: 1000 }
const FOREVER = Number.POSITIVE_INFINITY

/** What a third party's backend may do wrong, one at a time. */
const NONSENSE: [string, Fault | null][] = [
  ['throws', throwing(new Error('thrown, not rejected'))],
  ['throws no error', throwing(undefined)],
  ['rejects with no error', refusedWith(Object.create(null))],
  ['rejects with nothing', refusedWith(undefined)],
  ['returns nothing', answering(undefined)],
  ['resolves with nothing', answering(Promise.resolve())],
  ['resolves with null', answering(Promise.resolve(null))],
  ['resolves with a number', answering(Promise.resolve(7))],
  ['resolves with an empty object', answering(Promise.resolve({}))],
  ['never answers', lostRequest],
  // See lateNothing: it needs the clock of its world.
  ['answers nothing, too late', null],
]

/** Nothing, after the engine has given up. */
function lateNothing(seams: Seams): Fault {
  return async () => {
    await new Promise<void>((resolve) => seams.after(2500, resolve))
  }
}

const METHODS: Method[] = [
  'tryAcquire',
  'handOver',
  'wakeUp',
  'renew',
  'release',
  'cancel',
  'inspect',
  'revoke',
  'close',
]

/** What a call gave may be a lease, nothing, or nonsense. */
async function letGo(value: unknown): Promise<void> {
  await (value as Partial<Lease> | null | undefined)?.release?.()
}

describe('a backend that breaks its contract', () => {
  for (const method of METHODS) {
    // One client that threw instead of rejecting left a promise that nobody settled, a line that
    // nobody served, and an unhandled rejection that ended the process.
    it(`in ${method} costs calls, never the line, the process or another name`, async () => {
      for (const [what, nonsense] of NONSENSE) {
        const { clock, store, engine } = openWorld()
        const { locks, backend } = engine()
        const fault = nonsense ?? lateNothing(seamsOf(clock))
        backend.next(method, fault, fault, fault)
        const foreign = await engine().locks.acquire('k', { ttlMs: 400, renew: false })
        const { fencingToken } = foreign
        const calls = [
          watch(clock, locks.tryAcquire('once', TTL)),
          watch(clock, locks.acquire('k', { ...TTL, waitMs: 200 })),
          watch(clock, locks.acquire('k', { ...TTL, waitMs: 9000 })),
          watch(clock, locks.acquire('k', { ...TTL, waitMs: FOREVER })),
          watch(clock, locks.inspect('k')),
          watch(clock, locks.revoke('k', { fencingToken, reason: 'test' })),
        ]
        await clock.advance(3000)
        for (const { value } of calls) watch(clock, letGo(value))
        await clock.advance(20_000)
        for (const { value } of calls) watch(clock, letGo(value))
        await clock.advance(20_000)
        const pending = calls.filter(({ state }) => state === 'pending')
        expect([what, pending.length]).toEqual([what, 0])
        for (const { error } of calls.filter(({ state }) => state === 'rejected')) {
          const known = error instanceof LockError || error instanceof Error
          expect([what, known, error]).toEqual([what, true, error])
        }
        // The same name and another one are served as if nothing had been.
        for (const name of ['k', 'other']) {
          const lease = watch(clock, locks.acquire(name, TTL))
          await clock.advance(2500)
          expect([what, lease.state]).toEqual([what, 'resolved'])
          watch(clock, lease.value!.release())
        }
        await clock.advance(5000)
        const closed = watch(clock, locks.close())
        await clock.advance(5000)
        expect([what, closed.state === 'pending']).toEqual([what, false])
        expect(await store.inspect('k')).toBeNull()
        expect([what, await timersLeft(clock)]).toEqual([what, 0])
      }
    })
  }

  const wrong: [string, (grant: Grant) => Partial<Record<keyof Grant, unknown>>][] = [
    ['of another owner', () => ({ owner: 'AAAAAAAAAAAAAAAAAAAAAA' })],
    ['of another name', () => ({ lockName: 'other' })],
    ['without a token', () => ({ fencingToken: 0n })],
    ['that lasts for no known time', () => ({ ttlMs: Number.NaN })],
    ['on another clock', ({ sentAtMs }) => ({ sentAtMs: sentAtMs + 1e12 })],
    ['from no known moment', () => ({ sentAtMs: Number.NaN })],
  ]
  for (const [what, change] of wrong) {
    // Believed, a grant that counts from another clock lasts for ever.
    it(`by a grant ${what} is told of its bug, and the grant is undone`, async () => {
      for (const waitMs of [0, 5000]) {
        const { clock, store, engine } = openWorld()
        const { locks, backend, told } = engine()
        backend.next('tryAcquire', async (apply) => {
          const { kind, grant } = (await apply()) as { kind: string; grant: Grant }
          return { kind, grant: { ...grant, ...change(grant) } }
        })
        const acquiring = watch(clock, locks.acquire('k', { ttlMs: 60_000, waitMs }))
        await clock.advance(10)
        expect(acquiring.error).toBeInstanceOf(InvariantError)
        expect(await store.inspect('k')).toBeNull()
        expect(told.map(({ type }) => type)).toEqual(['cancelled'])
      }
    })
  }

  it('by refusals without a number does not make contenders ask without a pause', async () => {
    for (const retryAfterMs of [Number.NaN, undefined, -1, 0, Number.POSITIVE_INFINITY, '5']) {
      const { clock, engine } = openWorld({ jitter: 0 })
      const { locks, backend } = engine({ without: ['wakeUp'] })
      backend.always('tryAcquire', answering(Promise.resolve({ kind: 'held', retryAfterMs })))
      const waiting = watch(clock, locks.acquire('k', { ...TTL, waitMs: 3000 }))
      await clock.advance(3000)
      expect(waiting.error).toMatchObject({ code: 'LOCK_HELD' })
      const asked = backend.callsOf('tryAcquire').length
      expect([retryAfterMs, asked <= 3001]).toEqual([retryAfterMs, true])
    }
  })
})

describe('a listener', () => {
  // A listener of metrics threw, and the lock it was told of was never released.
  it('that throws or rejects, with anything, changes nothing and is reported', async () => {
    // Some hundred warnings are what is expected; nobody needs to read them.
    const warn = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    onTestFinished(() => warn.mockRestore())
    for (const what of [new Error('listener'), 'text', undefined, Object.create(null)]) {
      const { clock, store, engine } = openWorld()
      const { locks, backend } = engine()
      for (const type of ['acquired', 'renewed', 'lost', 'released', 'refused'] as const) {
        locks.on(type, () => {
          throw what
        })
        locks.on(type, async () => {
          throw what
        })
      }
      const lost = await locks.acquire('lost', { ...TTL, renew: false })
      const lease = await locks.acquire('k', TTL)
      await clock.advance(3000)
      expect([lost.isHeld, lease.isHeld]).toEqual([false, true])
      expect(await locks.tryAcquire('k', TTL)).toBeNull()
      expect(await lease.release()).toBe('released')
      expect(backend.callsOf('renew').length).toBeGreaterThan(5)
      expect(await store.inspect('k')).toBeNull()
      expect(await timersLeft(clock)).toBe(0)
    }
    await new Promise((resolve) => setImmediate(resolve))
    expect(warn.mock.calls.length).toBeGreaterThan(40)
    for (const [, options] of warn.mock.calls) {
      expect(options).toMatchObject({ code: 'HOLDFAST_LISTENER' })
    }
  })

  // Whoever is told of the end takes the lock again at once, or closes: in the middle of our own work.
  it('or a signal may call back into the locks at once', async () => {
    const { clock, store, engine } = openWorld()
    const { locks } = engine()
    const again: Promise<unknown>[] = []
    const stop = locks.on('lost', ({ lockName }) => {
      again.push(locks.acquire(lockName, { ...TTL, waitMs: FOREVER }))
    })
    const lease = await locks.acquire('k', { ...TTL, renew: false })
    lease.signal.addEventListener('abort', () => {
      again.push(lease.release())
    })
    await clock.advance(2000)
    expect(again).toHaveLength(2)
    expect(await again[0]).toBe('not-held')
    expect(await again[1]).toMatchObject({ isHeld: true })
    stop()

    // Told by close(), they ask again: refused, instead of waiting for ever.
    await engine().locks.acquire('foreign', { ttlMs: 120_000, renew: false })
    const late: Watched<unknown>[] = []
    locks.on('lost', () => {
      late.push(watch(clock, locks.acquire('foreign', { ...TTL, waitMs: FOREVER })))
    })
    await locks.close()
    await clock.advance(1)
    expect(late[0]?.error).toMatchObject({ code: 'CLOSED' })
    expect(await store.inspect('k')).toBeNull()
    expect(await timersLeft(clock)).toBe(0)
  })
})
