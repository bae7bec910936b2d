import { describe, expect, it } from 'vitest'
import {
  BackendUnavailableError,
  InvalidArgumentError,
  LeaseLostError,
  OutcomeUnknownError,
  StaleTokenError,
} from '../../../src/core/errors.ts'
import { createElection, type ElectionOptions, type Term } from '../../../src/election.ts'
import { memoryGuard } from '../../../src/guards/memory/guard.ts'
import { memoryStore } from '../../../src/guards/memory/store.ts'
import { loseLease } from '../../../src/testkit/fake-locks.ts'
import { given, led, stepsOf } from '../../support/elections.ts'
import {
  answering,
  appliedButHears,
  gate,
  lostReply,
  lostRequest,
  refusedWith,
} from '../../support/faulty-backend.ts'
import { codeOf, openWorld, timersLeft, watch } from '../../support/open-engine.ts'

const NAME = 'scheduler'
const TTL_MS = 3000
const DRAIN_MS = 1200
const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))

/** A leader, and who stands behind it. */
async function lead(options: ElectionOptions = {}) {
  const world = openWorld()
  const engine = world.engine()
  const other = world.engine()
  const all = { ttlMs: TTL_MS, drainMs: DRAIN_MS, ...options }
  const stop = new AbortController()
  const election = createElection(engine.locks, NAME, all)
  const one = stepsOf(world.clock, election.campaign({ value: 'first', signal: stop.signal }))
  const term = await led(world.clock, one.next())
  const next = stepsOf(world.clock, createElection(other.locks, NAME, all).campaign()).next()
  await world.clock.advance(50)
  return { ...world, ...engine, other, election, stop, one, term, next }
}

const isReleased = async (term: Term, store: { inspect(name: string): Promise<unknown> }) => {
  const info = (await store.inspect(NAME)) as { fencingToken: bigint } | null
  return info?.fencingToken !== term.fencingToken
}

describe('draining', () => {
  it('begins with the abort: the signal says so with its reason, and the lease goes on', async () => {
    const { clock, stop, term, store, next } = await lead()
    const reason = new Error('deploying')
    stop.abort(reason)
    expect(term.signal.aborted).toBe(true)
    expect(term.signal.reason).toBe(reason)
    await clock.advance(DRAIN_MS - 1)
    expect(term.isHeld).toBe(true)
    term.assertValid()
    expect(await isReleased(term, store)).toBe(false)
    expect(next.state).toBe('pending')
  })

  it('ends with the body', async () => {
    const { clock, stop, term, one, next } = await lead()
    stop.abort()
    await clock.advance(DRAIN_MS / 2)
    one.next()
    await clock.advance(50)
    expect(term.isHeld).toBe(false)
    expect(given(next).fencingToken).toBeGreaterThan(term.fencingToken)
  })

  // The accident: a body that does not end keeps the leadership for ever, in a process that shuts down.
  it('ends with drainMs, whatever the body does', async () => {
    const { clock, stop, term, next } = await lead()
    stop.abort()
    await clock.advance(DRAIN_MS + 50)
    expect(term.isHeld).toBe(false)
    expect(() => term.assertValid()).toThrow(LeaseLostError)
    expect(given(next).fencingToken).toBeGreaterThan(term.fencingToken)
  })

  it('with drainMs 0 gives the lease back at once, after the signal', async () => {
    const { clock, stop, term, next } = await lead({ drainMs: 0 })
    stop.abort()
    await clock.advance(50)
    expect(next.state).toBe('resolved')
    expect(term.isHeld).toBe(false)
  })

  it('renews: a drain may be as long as the TTL', async () => {
    const { clock, stop, term } = await lead({ drainMs: TTL_MS })
    await clock.advance(900)
    stop.abort()
    await clock.advance(TTL_MS - 50)
    expect(term.isHeld).toBe(true)
  })

  // The accident: a grace after the loss, in which two lead.
  it('has no grace after a loss', async () => {
    const { clock, stop, term, backend } = await lead()
    backend.always('renew', lostRequest)
    stop.abort()
    expect(loseLease(term, 'expired')).toBe(true)
    expect(term.isHeld).toBe(false)
    expect(term.remainingMs()).toBe(0)
    expect(() => term.assertValid()).toThrow(LeaseLostError)
    await clock.advance(0)
    expect(backend.callsOf('release')).toHaveLength(0)
  })

  it('ends for good when the store takes the lease away meanwhile', async () => {
    const { clock, stop, term, backend, store } = await lead({ drainMs: TTL_MS })
    stop.abort()
    const seen = await store.inspect(NAME)
    backend.always('renew', answering({ kind: 'lost', reason: 'revoked' }))
    await clock.advance(TTL_MS / 3)
    expect(term.isHeld).toBe(false)
    expect(seen?.fencingToken).toBe(term.fencingToken)
    expect(await codeOf(term.proclaim('x'))).toBe('LEASE_LOST')
  })

  it('comes after a loss: the signal keeps the reason of the loss', async () => {
    const { clock, stop, term } = await lead()
    loseLease(term, 'revoked')
    stop.abort(new Error('too late to drain'))
    expect(term.signal.reason).toBeInstanceOf(LeaseLostError)
    await clock.advance(DRAIN_MS)
    expect(term.isHeld).toBe(false)
  })

  it('lets a guarded write through until the lease is given back', async () => {
    const { clock, stop, term } = await lead()
    const store = memoryStore()
    const guard = memoryGuard(store)
    stop.abort()
    await guard.transaction(term, async (tx) => tx.set('last', 'words'))
    await clock.advance(DRAIN_MS)
    const late = guard.transaction(term, async (tx) => tx.set('last', 'too late'))
    expect(await codeOf(late)).toBe('LEASE_LOST')
  })
})

describe('the end of a term', () => {
  type Ending = [string, (all: Awaited<ReturnType<typeof lead>>) => unknown]
  const ENDINGS: Ending[] = [
    ['resign()', ({ term }) => term.resign()],
    ['the end of the body', ({ one }) => one.next()],
    ['break', ({ one }) => one.end()],
    ['await using', ({ term }) => term[Symbol.asyncDispose]()],
    ['draining with drainMs 0', ({ stop }) => stop.abort()],
    ['close()', ({ locks }) => locks.close()],
  ]
  for (const [title, end] of ENDINGS) {
    // The accident: work that is tied to the signal goes on beside the next leader.
    it(`aborts the signal before the lease is given back: ${title}`, async () => {
      const all = await lead({ drainMs: title.includes('drainMs 0') ? 0 : DRAIN_MS })
      const { clock, backend, term } = all
      const abortedAtRelease: boolean[] = []
      for (const method of ['release', 'handOver'] as const) {
        backend.always(method, (apply) => {
          abortedAtRelease.push(term.signal.aborted)
          return apply()
        })
      }
      end(all)
      await clock.advance(50)
      expect(abortedAtRelease).toEqual([true])
      expect(await isReleased(term, all.store)).toBe(true)
      expect(term.isHeld).toBe(false)
    })
  }

  it('by resigning twice is one release, and one promise', async () => {
    const { term, clock, backend } = await lead()
    const first = term.resign()
    expect(term.resign()).toBe(first)
    await clock.advance(0)
    expect(await first).toBe('released')
    await term[Symbol.asyncDispose]()
    expect(backend.callsOf('release')).toHaveLength(1)
  })

  it('by resigning after a loss says that it was not held', async () => {
    const { term, clock } = await lead()
    loseLease(term, 'expired')
    const resigned = watch(clock, term.resign())
    await clock.advance(0)
    expect(resigned.value).toBe('not-held')
  })

  it('of which the store does not know rejects for its caller, and ends no process', async () => {
    const { term, clock, backend, one, next } = await lead()
    backend.always('release', DOWN)
    const resigned = watch(clock, term.resign())
    const round = one.next()
    await clock.advance(2500)
    expect(resigned.error).toHaveProperty('code', 'BACKEND_UNAVAILABLE')
    backend.forget('release')
    await clock.advance(10_000)
    expect([round.state, next.state].sort()).toEqual(['pending', 'resolved'])
  })

  it('leaves no drain behind: it ended first, or was lost first', async () => {
    for (const end of ['body', 'loss'] as const) {
      const world = openWorld()
      const stop = new AbortController()
      const election = createElection(world.engine().locks, NAME, { ttlMs: TTL_MS })
      const one = stepsOf(world.clock, election.campaign({ signal: stop.signal }))
      const term = await led(world.clock, one.next())
      if (end === 'loss') loseLease(term, 'expired')
      stop.abort()
      if (end === 'body') one.next()
      await world.clock.advance(0)
      expect(world.keepingAlive(), end).toBe(0)
    }
  })

  it('leaves nothing armed', async () => {
    const all = await lead()
    all.stop.abort()
    all.one.next()
    await all.clock.advance(0)
    given(all.next)
    await all.other.locks.close()
    expect(await timersLeft(all.clock)).toBe(0)
  })
})

describe('a term', () => {
  it('is a lease: number, owner and source, validity, renewal', async () => {
    const { term, store, clock } = await lead()
    const info = await store.inspect(NAME)
    expect(info?.fencingToken).toBe(term.fencingToken)
    expect([term.lockName, term.source]).toEqual([NAME, 'memory:'])
    expect(term.owner).toHaveLength(22)
    expect(() => term.assertValid(TTL_MS)).toThrow(LeaseLostError)
    await clock.advance(300)
    const before = term.remainingMs()
    await term.renew()
    expect(term.remainingMs()).toBeGreaterThan(before)
  })

  it('lasts as long as the store renews it', async () => {
    const { clock, term, next } = await lead()
    await clock.advance(600_000)
    expect(term.isHeld).toBe(true)
    expect(next.state).toBe('pending')
  })

  it('is lost at its deadline with a silent store, and the signal says why', async () => {
    const { clock, term, backend } = await lead()
    backend.always('renew', lostRequest)
    await clock.advance(TTL_MS)
    expect(term.signal.reason).toMatchObject({ code: 'LEASE_LOST', reason: 'expired' })
  })

  // The accident: the event loop was blocked, no timer has run yet, and the signal says that all is well.
  it('shows a loss by its signal in the first statement after a block', async () => {
    const { clock, term } = await lead()
    clock.block(TTL_MS)
    expect(term.signal.aborted).toBe(true)
  })

  it('passes a refusal of its guard on, which tells of tokens that went back', async () => {
    const { clock, term, locks } = await lead()
    const guard = memoryGuard(memoryStore())
    const later = { ...fencedOf(term), fencingToken: term.fencingToken + 5n, owner: 'B'.repeat(22) }
    await guard.claim(later)
    const warned: unknown[] = []
    locks.on('warning', ({ code }) => warned.push(code))
    await expect(guard.claim(term)).rejects.toBeInstanceOf(StaleTokenError)
    await clock.advance(0)
    expect(warned).toEqual(['token-regression'])
  })
})

function fencedOf({ lockName, fencingToken, owner, source }: Term) {
  return { lockName, fencingToken, owner, source }
}

describe('proclaim', () => {
  it('replaces what leader() says', async () => {
    const { election, term } = await lead()
    expect((await election.leader())?.value).toBe('first')
    await term.proclaim('warm')
    expect(await election.leader()).toMatchObject({
      value: 'warm',
      fencingToken: term.fencingToken,
      holder: { pid: process.pid, value: 'warm' },
    })
  })

  // The accident: two values on their way at once arrive in the other order, and the older one stays.
  it('is applied in the order of its calls', async () => {
    const { clock, election, term, backend } = await lead()
    const slow = gate()
    backend.next('proclaim', slow.fault)
    const told = [term.proclaim('one'), term.proclaim('two'), term.proclaim('three')]
    await clock.advance(10)
    expect(backend.callsOf('proclaim')).toHaveLength(1)
    await slow.answer()
    await clock.advance(10)
    await Promise.all(told)
    expect((await election.leader())?.value).toBe('three')
  })

  it('after an error goes on with the next one', async () => {
    const { election, term, backend } = await lead()
    backend.next('proclaim', DOWN)
    const first = term.proclaim('one')
    await expect(first).rejects.toBeInstanceOf(BackendUnavailableError)
    await term.proclaim('two')
    expect((await election.leader())?.value).toBe('two')
  })

  it('without an answer in 2 s, or with another error, is of unknown outcome; the term goes on', async () => {
    const faults = [lostReply, lostRequest, appliedButHears(new Error('socket hang up'))]
    for (const fault of faults) {
      const { clock, term, backend } = await lead({ ttlMs: 10_000 })
      backend.next('proclaim', fault)
      const told = watch(clock, term.proclaim('one'))
      await clock.advance(1999)
      await clock.advance(2)
      expect(told.error).toBeInstanceOf(OutcomeUnknownError)
      expect(term.isHeld).toBe(true)
    }
  })

  it('after a loss throws, and sends nothing', async () => {
    const { term, backend } = await lead()
    loseLease(term, 'revoked')
    expect(await codeOf(term.proclaim('x'))).toBe('LEASE_LOST')
    expect(backend.callsOf('proclaim')).toHaveLength(0)
  })

  it('after resigning throws', async () => {
    const { term, clock } = await lead()
    term.resign()
    await clock.advance(0)
    expect(await codeOf(term.proclaim('x'))).toBe('LEASE_LOST')
  })

  // The store says "not held", and the reason is what its next renewal says.
  it('that the store refuses because the term is over throws, and the signal tells why', async () => {
    const { clock, term, backend } = await lead()
    backend.next('proclaim', answering(Promise.resolve('not-held')))
    backend.next('renew', answering(Promise.resolve({ kind: 'lost', reason: 'superseded' })))
    const told = watch(clock, term.proclaim('x'))
    await clock.advance(0)
    expect(told.error).toMatchObject({ code: 'LEASE_LOST', reason: 'superseded' })
    expect(term.signal.reason).toMatchObject({ reason: 'superseded' })
  })

  it('after an operator deposed the leader throws, and the signal tells', async () => {
    const { clock, term, store } = await lead()
    const taken = await store.revoke(
      {
        ...{ lockName: NAME, owner: 'C'.repeat(22), ttlMs: 1000, timeoutMs: 1000, waits: false },
        ...{ lockDelayMs: 0, waiter: 'w', holder: { host: 'h', pid: 1 }, onLost: () => {} },
      },
      { fencingToken: term.fencingToken, reason: 'INC-7' },
    )
    expect(taken).not.toBeNull()
    const told = watch(clock, term.proclaim('x'))
    await clock.advance(0)
    expect(told.error).toMatchObject({ code: 'LEASE_LOST', reason: 'revoked' })
    expect(term.signal.aborted).toBe(true)
  })

  it('that the store refuses although it renews the term is of unknown outcome', async () => {
    const { clock, term, backend } = await lead()
    backend.next('proclaim', answering(Promise.resolve('not-held')))
    const told = watch(clock, term.proclaim('x'))
    await clock.advance(0)
    expect(told.error).toBeInstanceOf(OutcomeUnknownError)
    expect(term.isHeld).toBe(true)
  })

  it('refuses what is no text of up to 512 bytes, before anything is sent', async () => {
    const { term, backend } = await lead()
    for (const value of [undefined, 5, 'x'.repeat(513), 'é'.repeat(257), '\ud800']) {
      const error = await term.proclaim(value as string).catch((thrown) => thrown)
      expect(error).toBeInstanceOf(InvalidArgumentError)
      expect(error).toHaveProperty('option', 'value')
    }
    await term.proclaim('x'.repeat(512))
    await term.proclaim('')
    expect(backend.callsOf('proclaim')).toHaveLength(2)
  })
})
