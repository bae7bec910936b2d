import { describe, expect, it } from 'vitest'
import { BackendUnavailableError, ClosedError, NotALockError } from '../../../src/core/errors.ts'
import { createElection, type ElectionOptions, type Term } from '../../../src/election.ts'
import { given, isOver, led, stepsOf } from '../../support/elections.ts'
import { gate, lostRequest, refusedWith } from '../../support/faulty-backend.ts'
import { type Engine, openWorld, timersLeft, type World } from '../../support/open-engine.ts'

const NAME = 'scheduler'
const OPTIONS: ElectionOptions = { ttlMs: 3000 }
const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))

function open() {
  const world = openWorld()
  const engine = world.engine()
  const election = createElection(engine.locks, NAME, OPTIONS)
  const candidate = (campaign?: Parameters<typeof election.campaign>[0]) =>
    stepsOf(world.clock, election.campaign(campaign))
  return { ...world, ...engine, election, candidate }
}

const holderOf = async ({ store }: World): Promise<bigint | null | undefined> =>
  (await store.inspect(NAME))?.fencingToken

describe('the loop of a campaign', () => {
  it('gives one term after the other, with rising numbers', async () => {
    const { clock, election } = open()
    const terms: bigint[] = []
    const loop = (async () => {
      for await (const term of election.campaign()) {
        expect(term.isHeld).toBe(true)
        terms.push(term.fencingToken)
        if (terms.length === 3) break
      }
    })()
    await clock.advance(5000)
    await loop
    expect(terms).toHaveLength(3)
    expect(terms).toEqual([...new Set(terms)].sort((a, b) => (a < b ? -1 : 1)))
  })

  const ends: [string, (body: Term) => boolean | Promise<never>][] = [
    ['break', () => false],
    ['an error of the body', () => Promise.reject(new Error('from the body'))],
  ]
  for (const [title, body] of ends) {
    it(`ends with ${title}, and has resigned before the code behind it runs`, async () => {
      const world = open()
      const { clock, election } = world
      let seen: unknown = 'nothing'
      const loop = (async () => {
        try {
          for await (const term of election.campaign()) if (!(await body(term))) break
        } catch (error) {
          expect((error as Error).message).toBe('from the body')
        }
        seen = await holderOf(world)
      })()
      await clock.advance(0)
      await loop
      expect(seen).toBeUndefined()
      expect(await timersLeft(clock)).toBe(0)
    })
  }

  it('ends with return in the body, and has resigned by then', async () => {
    const world = open()
    const lead = async (): Promise<bigint> => {
      for await (const term of world.election.campaign()) return term.fencingToken
      throw new Error('no term')
    }
    const leading = lead()
    await world.clock.advance(0)
    expect(await leading).toBeGreaterThan(0n)
    expect(await holderOf(world)).toBeUndefined()
  })

  it('gives a candidate of its own to each iteration', async () => {
    const { clock, election } = open()
    const campaign = election.campaign()
    const [a, b] = [stepsOf(clock, campaign), stepsOf(clock, campaign)]
    const first = a.next()
    const second = b.next()
    await clock.advance(100)
    expect([first.state, second.state]).toEqual(['resolved', 'pending'])
    a.end()
    await clock.advance(0)
    expect(given(second).fencingToken).toBeGreaterThan(given(first).fencingToken)
    b.end()
    expect(await timersLeft(clock)).toBe(0)
  })

  // The accident: two elections of one name in one process, and both lead because they share a client.
  it('has one leader among two elections of one name in one process', async () => {
    const world = openWorld()
    const { locks } = world.engine()
    const steps = ['a', 'b'].map((value) =>
      stepsOf(world.clock, createElection(locks, NAME, OPTIONS).campaign({ value })),
    )
    const rounds = steps.map((one) => one.next())
    await world.clock.advance(10_000)
    expect(rounds.map(({ state }) => state)).toEqual(['resolved', 'pending'])
    steps[0]?.next()
    await world.clock.advance(0)
    expect(rounds.map(({ state }) => state)).toEqual(['resolved', 'resolved'])
  })

  // The accident: the next in line has crashed, and everybody behind it waits for it.
  it('passes over a candidate that died while it waited', async () => {
    const world = openWorld()
    const engines = [world.engine(), world.engine(), world.engine()]
    const steps = engines.map(({ locks }) =>
      stepsOf(world.clock, createElection(locks, NAME, OPTIONS).campaign()),
    )
    const rounds = []
    for (const one of steps) {
      rounds.push(one.next())
      await world.clock.advance(50)
    }
    for (const method of ['tryAcquire', 'renew', 'release', 'cancel', 'wakeUp'] as const) {
      engines[1]?.backend.always(method, lostRequest)
    }
    steps[0]?.end()
    await world.clock.advance(1300)
    expect(rounds.map(({ state }) => state)).toEqual(['resolved', 'pending', 'resolved'])
  })

  it('answers calls of next one after the other; each ends the term before it', async () => {
    const { clock, candidate } = open()
    const one = candidate()
    const rounds = [one.next(), one.next()]
    await clock.advance(0)
    expect(rounds.map(({ state }) => state)).toEqual(['resolved', 'pending'])
    expect(given(rounds[0]!).isHeld).toBe(false)
    await clock.advance(2000)
    expect(given(rounds[1]!).isHeld).toBe(true)
  })
})

type State = Readonly<{
  title: string
  /** Brings a fresh candidate there; its round that is under way, or was given. */
  reach(world: ReturnType<typeof open>, stop: AbortSignal): Promise<void>
  /** Whether a body runs. */
  leads: boolean
}>

const STATES: State[] = [
  { title: 'not begun', reach: async () => {}, leads: false },
  {
    title: 'waiting',
    reach: async ({ store, clock }) => {
      await store.tryAcquire(request())
      await clock.advance(0)
    },
    leads: false,
  },
  {
    title: 'waiting for a silent store',
    reach: async ({ backend }) => silence(backend),
    leads: false,
  },
  {
    title: 'waiting while the store is away',
    reach: async ({ backend }) => backend.always('tryAcquire', DOWN),
    leads: false,
  },
  { title: 'leading', reach: async () => {}, leads: true },
]

const silence = (backend: Engine['backend']): void => backend.always('tryAcquire', lostRequest)

function request(owner = 'A'.repeat(22)) {
  return {
    ...{ lockName: NAME, owner, ttlMs: 60_000, timeoutMs: 1000, lockDelayMs: 0, waits: false },
    ...{ waiter: 'w', holder: { host: 'h', pid: 1 }, onLost: () => {} },
  }
}

describe('an abort of the campaign', () => {
  for (const { title, reach, leads } of STATES) {
    it(`ends the loop without an error: ${title}`, async () => {
      const world = open()
      const { clock, candidate } = world
      const stop = new AbortController()
      await reach(world, stop.signal)
      const one = candidate({ signal: stop.signal })
      if (title === 'not begun') stop.abort()
      const round = one.next()
      await clock.advance(500)
      expect(round.state).toBe(leads || title === 'not begun' ? 'resolved' : 'pending')
      stop.abort(new Error('shutting down'))
      await clock.advance(0)
      if (leads) {
        expect(given(round).signal.reason).toBe(stop.signal.reason)
        const last = one.next()
        await clock.advance(0)
        expect(isOver(last)).toBe(true)
        expect(await holderOf(world)).toBeUndefined()
      } else {
        expect(isOver(round)).toBe(true)
      }
      const after = one.next()
      await clock.advance(0)
      expect(isOver(after)).toBe(true)
      expect(await timersLeft(clock)).toBe(0)
    })
  }

  it('ends the loop without an error: while it lets others come first', async () => {
    const { clock, candidate, backend } = open()
    const stop = new AbortController()
    const one = candidate({ signal: stop.signal })
    one.next()
    await clock.advance(0)
    // Even a store that does not answer must not hold it back.
    backend.always('inspect', lostRequest)
    const second = one.next()
    await clock.advance(100)
    expect(second.state).toBe('pending')
    stop.abort()
    await clock.advance(0)
    expect(isOver(second)).toBe(true)
  })

  // The accident: the grant comes in the turn of the abort, and the lock stays for a TTL.
  it('gives back a grant that comes with it', async () => {
    for (const turns of [0, 1, 2, 3, 4, 5, 6, 7, 8]) {
      const world = open()
      const stop = new AbortController()
      const one = world.candidate({ signal: stop.signal })
      const round = one.next()
      for (let turn = 0; turn < turns; turn++) await Promise.resolve()
      stop.abort()
      await world.clock.advance(0)
      if (!isOver(round)) {
        expect(given(round).signal.aborted).toBe(true)
        one.next()
      }
      await world.clock.advance(100)
      expect(await holderOf(world), `after ${turns} turns`).toBeUndefined()
    }
  })
})

describe('return() from outside of the loop', () => {
  for (const { title, reach, leads } of STATES.slice(1)) {
    it(`is heard at once: ${title}`, async () => {
      const world = open()
      const { clock, candidate, backend } = world
      await reach(world, new AbortController().signal)
      const one = candidate()
      const round = one.next()
      await clock.advance(500)
      const end = one.end()
      await clock.advance(0)
      expect(end.state).toBe('resolved')
      if (leads) expect(given(round).isHeld).toBe(false)
      else expect(isOver(round)).toBe(true)
      backend.forget('tryAcquire')
      const later = one.next()
      await clock.advance(2000)
      expect(isOver(later)).toBe(true)
      expect(await timersLeft(clock)).toBe(0)
    })
  }

  it('settles when the store has answered the release', async () => {
    const world = open()
    const one = world.candidate()
    await led(world.clock, one.next())
    const slow = gate()
    world.backend.next('release', slow.fault)
    const end = one.end()
    await world.clock.advance(100)
    expect(end.state).toBe('pending')
    await slow.answer()
    await world.clock.advance(0)
    expect(end.state).toBe('resolved')
  })

  it('twice, and beside next(), ends once', async () => {
    const world = open()
    const one = world.candidate()
    one.next()
    await world.clock.advance(0)
    const all = [one.end(), one.next(), one.end()]
    await world.clock.advance(5000)
    expect(all.map(({ state }) => state)).toEqual(['resolved', 'resolved', 'resolved'])
    expect(world.typesOf(NAME)).toEqual(['acquired', 'released'])
  })
})

describe('closed locks', () => {
  for (const { title, reach, leads } of STATES.slice(1)) {
    it(`end the loop with ClosedError: ${title}`, async () => {
      const world = open()
      const { clock, candidate, locks } = world
      await reach(world, new AbortController().signal)
      const one = candidate()
      let round = one.next()
      await clock.advance(500)
      const closed = locks.close()
      await clock.advance(6000)
      await closed
      if (leads) {
        expect(given(round).signal.reason).toHaveProperty('reason', 'session-ended')
        round = one.next()
        await clock.advance(10)
      }
      expect(round.error).toBeInstanceOf(ClosedError)
      expect(await timersLeft(clock)).toBe(0)
    })
  }
})

describe('what waiting cannot mend', () => {
  it('ends the loop with that error, and it stays over', async () => {
    const errors = [
      new NotALockError('k', 'it never expires'),
      new BackendUnavailableError('no-permission', 'NOPERM'),
    ]
    for (const error of errors) {
      const { clock, candidate, backend } = open()
      backend.always('tryAcquire', refusedWith(error))
      const one = candidate()
      const round = one.next()
      await clock.advance(0)
      expect(round.error).toBe(error)
      backend.forget('tryAcquire')
      const later = one.next()
      await clock.advance(5000)
      expect(isOver(later)).toBe(true)
    }
  })
})
