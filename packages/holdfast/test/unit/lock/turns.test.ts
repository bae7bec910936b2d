import { describe, expect, it, vi } from 'vitest'
import { memoryBackendWith } from '../../../src/backends/memory/memory.ts'
import type { AcquireRequest, AcquireResult, Backend } from '../../../src/core/backend.ts'
import {
  BackendUnavailableError,
  LockHeldError,
  OutcomeUnknownError,
} from '../../../src/core/errors.ts'
import type { Locks } from '../../../src/core/lease.ts'
import { createLocksWith } from '../../../src/lock/lock.ts'
import {
  createVirtualClock,
  seamsOf,
  type VirtualClock,
} from '../../../src/testkit/virtual-clock.ts'

type Refused = Parameters<NonNullable<Backend['acquireInTurn']>>[2]
type Turn = (
  request: AcquireRequest,
  signal: AbortSignal,
  refused: Refused,
  unanswered?: (error: unknown) => void,
) => Promise<AcquireResult>

interface World {
  readonly clock: VirtualClock
  readonly store: Backend
  readonly locks: Locks
  /** Owners in the order in which they asked for a place. */
  readonly asked: string[]
  readonly cancelled: string[]
}

/** The memory store with a queue in front: its head asks every 10 ms, as long as it is not aborted. */
function open(instead?: (turn: Turn, clock: VirtualClock) => Turn): World {
  const clock = createVirtualClock({ jitter: 0 })
  const seams = seamsOf(clock)
  const store = memoryBackendWith(seams)
  const asked: string[] = []
  const cancelled: string[] = []
  const places: string[] = []
  const turn: Turn = async (request, signal, refused) => {
    places.push(request.owner)
    try {
      for (;;) {
        signal.throwIfAborted()
        if (places[0] === request.owner) {
          const result = await store.tryAcquire(request)
          if (result.kind === 'granted') return result
          refused(result)
        } else refused({ kind: 'held', retryAfterMs: null, holder: null })
        await new Promise<void>((resolve) => clock.after(10, resolve))
      }
    } finally {
      places.splice(places.indexOf(request.owner), 1)
    }
  }
  const own: Partial<Backend> = {
    acquireInTurn: (request, signal, refused, unanswered) => {
      asked.push(request.owner)
      return (instead?.(turn, clock) ?? turn)(request, signal, refused, unanswered)
    },
    cancel: (lockName, owner) => {
      cancelled.push(owner)
      return store.cancel(lockName, owner)
    },
  }
  const backend = new Proxy(store, {
    get: (target, key) => {
      const value = own[key as keyof Backend] ?? target[key as keyof Backend]
      return typeof value === 'function' ? value.bind(key in own ? own : target) : value
    },
    set: (target, key, value) => Reflect.set(target, key, value),
  })
  return { clock, store, locks: createLocksWith(seams, backend), asked, cancelled }
}

function told(promise: Promise<unknown>): Promise<unknown> {
  return promise.then(
    () => 'granted',
    (error: unknown) => error,
  )
}

describe('contenders on a store with a queue of its own', () => {
  // Ten thousand callers of one process would be ten thousand keys in etcd.
  it('stand there 64 at a time, and have their turns in the order in which they came', async () => {
    const { clock, locks, asked } = open()
    const first = locks.acquire('a')
    await clock.advance(20)
    const lease = await first
    const order: number[] = []
    const all = Array.from({ length: 100 }, (_, index) =>
      locks.using('a', { waitMs: 600_000 }, async () => {
        order.push(index)
      }),
    )
    await clock.advance(100)
    expect(asked).toHaveLength(65)
    await Promise.all([lease.release(), clock.advance(5000), Promise.all(all)])
    expect(order).toEqual(all.map((_, index) => index))
    expect(asked).toHaveLength(101)
  })

  // A refusal of long ago was told as "held for the whole wait", though the store had been silent since.
  it('are told of a silent store until it answers again, and of one refusal for each place', async () => {
    const lost = new OutcomeUnknownError('nobody answers')
    const { clock, locks } = open((_, at) => (_request, signal, refused, unanswered) => {
      const look = (fencingToken: bigint) => (): void =>
        refused({ kind: 'held', retryAfterMs: null, holder: null, fencingToken })
      look(1n)()
      at.after(1000, look(1n))
      at.after(1500, () => unanswered?.(lost))
      at.after(3000, look(2n))
      return new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason))
      })
    })
    const refusals: string[] = []
    locks.on('refused', ({ lockName }) => refusals.push(lockName))
    const ends = [1200, 2000, 4000].map((waitMs) => told(locks.acquire('a', { waitMs })))
    await clock.advance(5000)
    expect(await ends[0]).toMatchObject({ code: 'LOCK_HELD', handOvers: 0, heldForMs: 1000 })
    expect(await ends[1]).toBe(lost)
    expect(await ends[2]).toMatchObject({ code: 'LOCK_HELD', handOvers: 1, heldForMs: 0 })
    expect(refusals).toEqual(['a', 'a', 'a'])
  })

  // Whoever gave up must not be granted the lock afterwards, with nobody there to release it.
  it('leave at their deadline or abort, are cancelled, and those behind them move up', async () => {
    const { clock, locks, asked, cancelled, store } = open()
    const held = locks.acquire('a', { label: 'holder' })
    await clock.advance(20)
    const lease = await held
    const controller = new AbortController()
    const late = told(locks.acquire('a', { waitMs: 200 }))
    const leaving = told(locks.acquire('a', { signal: controller.signal }))
    const next = locks.acquire('a')
    await clock.advance(100)
    const reason = new Error('left')
    controller.abort(reason)
    expect(await leaving).toBe(reason)
    await clock.advance(150)
    const error = await late
    expect(error).toBeInstanceOf(LockHeldError)
    expect(error).toMatchObject({ waitedMs: 200, holder: { label: 'holder' } })
    expect(cancelled.sort()).toEqual([asked[1], asked[2]].sort())
    await Promise.all([lease.release(), clock.advance(50)])
    expect((await next).isHeld).toBe(true)
    await (await next).release()
    expect(await store.inspect('a')).toBeNull()
  })

  // The abort and the grant crossed: a grant to nobody keeps the name for a whole TTL.
  it('give back what comes after they have left', async () => {
    const { clock, locks, cancelled, store } = open(
      (turn, clock) => async (request, _, refused) => {
        const result = await turn(request, new AbortController().signal, refused)
        await new Promise<void>((resolve) => clock.after(500, resolve))
        return result
      },
    )
    const error = told(locks.acquire('a', { waitMs: 100 }))
    await clock.advance(100)
    // Nobody said that it is held.
    expect(await error).toBeInstanceOf(OutcomeUnknownError)
    await clock.advance(1000)
    expect(cancelled).toHaveLength(2)
    expect(new Set(cancelled).size).toBe(1)
    expect(await store.inspect('a')).toBeNull()
  })

  // A store that was away for a moment ended every wait.
  it('ask again, as somebody else, with growing delays after an error', async () => {
    const errors = [
      new BackendUnavailableError('down', 'not now'),
      new OutcomeUnknownError('who knows'),
      new BackendUnavailableError('no-quorum', 'not now'),
    ]
    const atMs: number[] = []
    const { clock, locks, asked, cancelled } = open((turn, clock) => (request, signal, refused) => {
      atMs.push(clock.nowMs())
      const error = errors.shift()
      return error ? Promise.reject(error) : turn(request, signal, refused)
    })
    const lease = locks.acquire('a')
    await clock.advance(2000)
    expect((await lease).isHeld).toBe(true)
    const start = atMs[0] ?? 0
    expect(atMs.map((ms) => ms - start)).toEqual([0, 50, 150, 350])
    expect(new Set(asked).size).toBe(4)
    // Only what may have been done is undone.
    expect(cancelled).toEqual([asked[1]])
  })

  it('are told at once what waiting cannot mend', async () => {
    const refusal = new BackendUnavailableError('no-permission', 'never')
    const { clock, locks, asked } = open(() => () => Promise.reject(refusal))
    const error = told(locks.acquire('a'))
    await clock.advance(0)
    expect(await error).toBe(refusal)
    expect(asked).toHaveLength(1)
  })

  // The event loop was blocked while the turn came.
  it('are not given a grant whose validity is spent', async () => {
    let blocks = 1
    const { clock, locks, cancelled, asked } = open((turn, clock) => async (...given) => {
      const result = await turn(...given)
      if (blocks-- > 0) clock.block(29_900)
      return result
    })
    const lease = locks.acquire('a', { waitMs: 60_000 })
    await clock.advance(0)
    await clock.advance(1000)
    expect((await lease).isHeld).toBe(true)
    expect(cancelled).toEqual([asked[0]])
  })

  it('are all told when the locks are closed, and leave nothing', async () => {
    const { clock, locks, store } = open()
    const held = locks.acquire('a')
    await clock.advance(20)
    await held
    const waiting = Array.from({ length: 70 }, () => told(locks.acquire('a')))
    await clock.advance(50)
    const closing = locks.close()
    await clock.advance(1000)
    await closing
    for (const error of await Promise.all(waiting)) expect(error).toMatchObject({ code: 'CLOSED' })
    expect(await store.inspect('a')).toBeNull()
  })

  // Who stands behind the 64 was told "no answer" by a store that answered all the time.
  it.each([
    ['held', 'LOCK_HELD'],
    ['silent', 'OUTCOME_UNKNOWN'],
  ])('say what those see who stand before them: the store is %s', async (how, code) => {
    const { clock, locks } = open((turn) => async (request, signal, refused, unanswered) => {
      const answered: Refused = (refusal) => {
        refused(refusal)
        if (how === 'silent') unanswered?.(new OutcomeUnknownError('nobody answers'))
      }
      return turn(request, signal, answered)
    })
    const holding = locks.acquire('a')
    await clock.advance(20)
    await holding
    const patient = Array.from({ length: 64 }, () => told(locks.acquire('a', { waitMs: 60_000 })))
    const behind = told(locks.acquire('a', { waitMs: 1000 }))
    await clock.advance(1000)
    expect(await behind).toMatchObject({ code })
    const closing = locks.close()
    await clock.advance(1000)
    await closing
    expect(await Promise.all(patient)).toHaveLength(64)
  })

  // Each that left moved all the others up, and at the end each that left let another one ask the store.
  it('are ten thousand, and leave in as many steps', async () => {
    const { clock, locks, asked } = open()
    const held = locks.acquire('a')
    await clock.advance(20)
    await held
    const controllers = Array.from({ length: 10_000 }, () => new AbortController())
    const waiting = controllers.map(({ signal }) => told(locks.acquire('a', { signal })))
    await clock.advance(50)
    expect(asked).toHaveLength(65)
    const moved = vi.spyOn(Array.prototype, 'shift')
    // From the middle, and then those who stand: as many move up.
    for (const controller of controllers.slice(100)) controller.abort(new Error('left'))
    for (const controller of controllers.slice(0, 30)) controller.abort(new Error('left'))
    const longest = Math.max(0, ...moved.mock.contexts.map((list) => (list as unknown[]).length))
    moved.mockRestore()
    expect(longest).toBeLessThan(100)
    expect(asked).toHaveLength(65 + 30)
    const closing = locks.close()
    await clock.advance(1000)
    await closing
    // Of the seventy that were left six stood behind the others, and none of them asked any more.
    expect(asked).toHaveLength(65 + 30)
    expect(await Promise.all(waiting)).toHaveLength(10_000)
  })
})
