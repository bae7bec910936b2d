import { describe, expect, it } from 'vitest'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import type { Locks } from '../../../src/core/lease.ts'
import { createElection, type ElectionOptions } from '../../../src/election.ts'
import { given, led, stepsOf } from '../../support/elections.ts'
import { lostRequest } from '../../support/faulty-backend.ts'
import { openWorld } from '../../support/open-engine.ts'

const NAME = 'scheduler'

function refusal(make: () => unknown): InvalidArgumentError {
  try {
    make()
  } catch (error) {
    expect(error).toBeInstanceOf(InvalidArgumentError)
    return error as InvalidArgumentError
  }
  throw new Error('it was accepted')
}

const make = (options: unknown, name: unknown = NAME) =>
  createElection(openWorld().engine().locks, name as string, options as ElectionOptions)

describe('createElection refuses, and names option, value and allowed range', () => {
  // B011: a renewal deadline beyond the TTL, or an interval beyond the deadline, and leaders by turns.
  const CASES: [title: string, options: object, option: string, allowed: string][] = [
    [
      'a drain beyond the TTL',
      { ttlMs: 3000, drainMs: 3001 },
      'drainMs',
      'from 0 to 3000, the ttlMs',
    ],
    ['a negative drain', { drainMs: -1 }, 'drainMs', 'an integer from 0 to 30000'],
    ['a drain that is no integer', { drainMs: 0.5 }, 'drainMs', 'an integer'],
    ['a drain that is null', { drainMs: null }, 'drainMs', 'an integer'],
    ['a TTL that is too short', { ttlMs: 99 }, 'ttlMs', 'from 100 to 86400000'],
    [
      'a renewal deadline beyond the TTL',
      { ttlMs: 3000, renewDeadlineMs: 3000 },
      'renewDeadlineMs',
      'an integer from 2 to 2668',
    ],
    [
      'an interval that leaves no second try',
      { ttlMs: 15_000, renewDeadlineMs: 10_000, renewEveryMs: 8400 },
      'renewEveryMs',
      'ttlMs > renewDeadlineMs > 1.2 * renewEveryMs, here 15000 > 10000 > 1.2 * renewEveryMs',
    ],
    ['a wait', { waitMs: 5000 }, 'waitMs', 'a candidate waits until it leads'],
    ['a signal', { signal: new AbortController().signal }, 'signal', 'belongs to one campaign'],
    ['an unknown option', { drain: 5 }, 'drain', 'drainMs'],
    ['a value that is too long', { value: 'x'.repeat(513) }, 'value', 'up to 512 bytes'],
  ]
  for (const [title, options, option, allowed] of CASES) {
    it(title, () => {
      const error = refusal(() => make(options))
      expect(error.option).toBe(option)
      const value = (options as Record<string, unknown>)[option]
      const told = { drain: '(withheld)', signal: 'an object (AbortSignal)' }
      expect(error.value).toBe(told[option as keyof typeof told] ?? value)
      expect(error.allowed).toContain(allowed)
    })
  }

  it('what is no name', () => {
    for (const name of ['', undefined, 'x'.repeat(513), 'a\0b', 'x#hf:y', ['a']]) {
      expect(refusal(() => make({}, name ?? null)).option).toBe('electionName')
    }
  })

  it('what are no options, and what are no locks', () => {
    for (const options of [null, [], 5]) {
      expect(refusal(() => make(options)).option).toBe('options')
    }
    for (const locks of [undefined, null, {}, { acquire: () => {} }]) {
      const error = refusal(() => createElection(locks as unknown as Locks, NAME))
      expect(error.option).toBe('locks')
    }
  })

  it('nothing of what stands at its bound', () => {
    for (const options of [
      { ttlMs: 3000, drainMs: 3000 },
      { drainMs: 0 },
      { drainMs: undefined, ttlMs: undefined },
      { ttlMs: 15_000, renewDeadlineMs: 10_000, renewEveryMs: 8333 },
    ]) {
      expect(make(options).leader).toBeTypeOf('function')
    }
  })
})

it('campaign and observe refuse before they are iterated', () => {
  const election = make({})
  const wrong: [string, () => unknown][] = [
    ['value', () => election.campaign({ value: 'x'.repeat(513) })],
    ['value', () => election.campaign({ value: 5 as unknown as string })],
    ['signal', () => election.campaign({ signal: {} as AbortSignal })],
    ['values', () => election.campaign({ values: 'a' } as object)],
    ['options', () => election.campaign(null as unknown as object)],
    ['signal', () => election.observe({ signal: 5 as unknown as AbortSignal })],
    ['value', () => election.observe({ value: 'a' } as object)],
    ['options', () => election.observe([] as object)],
  ]
  for (const [option, call] of wrong) expect(refusal(call).option).toBe(option)
})

describe('what was not given', () => {
  it('comes from the defaults of the locks', async () => {
    const world = openWorld()
    const { locks, backend } = world.engine({
      defaults: { ttlMs: 900, label: 'pod-7', value: 'v' },
    })
    expect(refusal(() => createElection(locks, NAME, { drainMs: 901 })).allowed).toContain('900')
    const election = createElection(locks, NAME)
    await led(world.clock, stepsOf(world.clock, election.campaign()).next())
    expect(backend.requests[0]?.ttlMs).toBe(900)
    expect(backend.requests[0]?.holder).toMatchObject({ label: 'pod-7', value: 'v' })
  })

  it('is a drain of 5 s, or of the TTL where that is shorter', async () => {
    for (const [ttlMs, drainMs] of [
      [30_000, 5000],
      [2000, 2000],
    ] as const) {
      const world = openWorld()
      const stop = new AbortController()
      const election = createElection(world.engine().locks, NAME, { ttlMs })
      const one = stepsOf(world.clock, election.campaign({ signal: stop.signal }))
      const term = await led(world.clock, one.next())
      stop.abort()
      await world.clock.advance(drainMs - 1)
      expect(term.isHeld).toBe(true)
      await world.clock.advance(1)
      expect(term.isHeld).toBe(false)
    }
  })
})

it('the value of a campaign comes before that of the election', async () => {
  const world = openWorld()
  const election = createElection(world.engine().locks, NAME, { value: 'election' })
  const one = stepsOf(world.clock, election.campaign({ value: 'campaign' }))
  await led(world.clock, one.next())
  expect((await election.leader())?.value).toBe('campaign')
})

it('the timing triple is kept: the signal fires at the renewal deadline', async () => {
  const world = openWorld()
  const { locks, backend } = world.engine()
  const timing = { ttlMs: 3000, renewDeadlineMs: 1500, renewEveryMs: 500 }
  const election = createElection(locks, NAME, timing)
  const term = await led(world.clock, stepsOf(world.clock, election.campaign()).next())
  backend.always('renew', lostRequest)
  await world.clock.advance(1499)
  expect(term.signal.aborted).toBe(false)
  await world.clock.advance(1)
  expect(term.signal.reason).toHaveProperty('reason', 'expired')
})

it('maxHoldMs bounds a term; the next one is another candidate', async () => {
  const world = openWorld()
  const options = { ttlMs: 1000, maxHoldMs: 4000 }
  const [one, two] = [world.engine(), world.engine()].map(({ locks }) =>
    stepsOf(world.clock, createElection(locks, NAME, options).campaign()),
  )
  const first = one!.next()
  await world.clock.advance(0)
  const theirs = two!.next()
  await world.clock.advance(4000)
  expect(given(first).signal.reason).toHaveProperty('reason', 'max-hold')
  one!.next()
  await world.clock.advance(100)
  expect(given(theirs).fencingToken).toBeGreaterThan(given(first).fencingToken)
})

it('locks that are wrapped work by the system clock, with what the election is given', async () => {
  const world = openWorld()
  const { locks } = world.engine()
  const wrapped: Locks = Object.create(locks, {
    capabilities: { value: locks.capabilities },
    backend: { value: locks.backend },
    acquire: { value: locks.acquire.bind(locks) },
    inspect: { value: locks.inspect.bind(locks) },
  })
  const election = createElection(wrapped, NAME, { ttlMs: 2000, value: 'a' })
  const one = stepsOf(world.clock, election.campaign())
  const term = await led(world.clock, one.next())
  expect((await election.leader())?.fencingToken).toBe(term.fencingToken)
  one.end()
  await world.clock.advance(0)
  expect(term.isHeld).toBe(false)
})
