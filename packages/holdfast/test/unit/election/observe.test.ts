import { describe, expect, it } from 'vitest'
import { BackendUnavailableError, ClosedError, NotALockError } from '../../../src/core/errors.ts'
import { createElection, type ElectionOptions, type Leadership } from '../../../src/election.ts'
import { given, isOver, led, shown, stepsOf } from '../../support/elections.ts'
import { lostRequest, refusedWith } from '../../support/faulty-backend.ts'
import {
  codeOf,
  type EngineOptions,
  openWorld,
  timersLeft,
  watch,
} from '../../support/open-engine.ts'

const NAME = 'scheduler'
const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))

function open(options: ElectionOptions = { ttlMs: 3000 }, engine: EngineOptions = {}) {
  const world = openWorld()
  const watching = world.engine(engine)
  const leading = world.engine()
  const theirs = createElection(leading.locks, NAME, options)
  const stop = new AbortController()
  const election = createElection(watching.locks, NAME, options)
  return {
    ...{ ...world, watching, leading, stop, election },
    observer: stepsOf(world.clock, election.observe({ signal: stop.signal })),
    candidate: (value?: string) => stepsOf(world.clock, theirs.campaign({ value })),
  }
}

describe('leader()', () => {
  it('is null where nobody leads', async () => {
    expect(await open().election.leader()).toBeNull()
  })

  it('is who leads, since when, in which term, with which value', async () => {
    const { election, candidate, clock } = open()
    const term = await led(clock, candidate('a').next())
    expect(await election.leader()).toEqual({
      fencingToken: term.fencingToken,
      value: 'a',
      holder: { host: expect.any(String), pid: process.pid, value: 'a' },
      sinceAtMs: clock.wallMs(),
    })
  })

  it('has the value "" of a leader that says nothing', async () => {
    const { election, candidate, clock } = open()
    await led(clock, candidate().next())
    expect((await election.leader())?.value).toBe('')
  })

  it('rejects with a store that is away, or silent for 2 s', async () => {
    const { election, watching, clock } = open()
    watching.backend.next('inspect', DOWN, lostRequest)
    expect(await codeOf(election.leader())).toBe('BACKEND_UNAVAILABLE')
    const asked = watch(clock, election.leader())
    await clock.advance(2000)
    expect(asked.error).toBeInstanceOf(BackendUnavailableError)
  })
})

describe('an observer', () => {
  it('is told first what is: nobody', async () => {
    const { observer, clock } = open()
    const first = observer.next()
    await clock.advance(0)
    expect(given(first)).toBeNull()
  })

  it('that joins late is told first what is: the leader', async () => {
    const { observer, candidate, clock } = open()
    const term = await led(clock, candidate('a').next())
    await clock.advance(60_000)
    const first = observer.next()
    await clock.advance(0)
    expect(shown(given(first))).toEqual([term.fencingToken, 'a'])
  })

  it('is told of every leader in turn, each with the value that it came with', async () => {
    const { candidate, clock, election } = open()
    const seen: unknown[] = []
    const stop = new AbortController()
    const loop = (async () => {
      for await (const now of election.observe({ signal: stop.signal })) seen.push(shown(now))
    })()
    await clock.advance(2000)
    const terms: unknown[] = [null]
    for (const value of ['a', 'b']) {
      const one = candidate(value)
      const term = await led(clock, one.next())
      terms.push([term.fencingToken, value])
      await clock.advance(1000)
      one.end()
      terms.push(null)
      await clock.advance(1000)
    }
    stop.abort()
    await clock.advance(0)
    await loop
    expect(seen).toEqual(terms)
    expect(await timersLeft(clock)).toBe(0)
  })

  it('is woken by a proclamation and by a resignation', async () => {
    const { observer, candidate, clock } = open({ ttlMs: 30_000 })
    const one = candidate('a')
    const term = await led(clock, one.next())
    observer.next()
    await clock.advance(0)
    const second = observer.next()
    await clock.advance(100)
    const fromMs = clock.nowMs()
    await term.proclaim('b')
    await clock.advance(20)
    expect(shown(given(second))).toEqual([term.fencingToken, 'b'])
    const third = observer.next()
    one.end()
    await clock.advance(20)
    expect(given(third)).toBeNull()
    expect((third.atMs ?? 0) - fromMs).toBeLessThan(50)
  })

  // The accident: a message is lost, or the store sends none, and an observer sees the old leader for ever.
  for (const [ttlMs, everyMs] of [
    [3000, 1000],
    [30_000, 2000],
    [100, 33],
  ] as const) {
    it(`looks every ${everyMs} ms without any push, with a TTL of ${ttlMs}`, async () => {
      const { observer, candidate, clock, watching } = open({ ttlMs }, { without: ['wakeUp'] })
      const one = candidate('a')
      const term = await led(clock, one.next())
      observer.next()
      await clock.advance(0)
      const second = observer.next()
      await clock.advance(everyMs / 2)
      await term.proclaim('b')
      await clock.advance(Math.ceil(everyMs / 2))
      expect(shown(given(second))).toEqual([term.fencingToken, 'b'])
      observer.next()
      const before = watching.backend.callsOf('inspect').length
      await clock.advance(10 * everyMs)
      const looks = watching.backend.callsOf('inspect').length - before
      expect(looks).toBeGreaterThanOrEqual(9)
      expect(looks).toBeLessThanOrEqual(12)
    })
  }

  // The accident: a store that wakes without a cause, and an observer that asks it without a pause.
  it('looks ever more seldom the more hints come without a cause, up to the usual interval', async () => {
    const { observer, candidate, clock, watching } = open({ ttlMs: 30_000 })
    await led(clock, candidate('a').next())
    watching.backend.always('wakeUp', () => Promise.resolve())
    observer.next()
    await clock.advance(0)
    observer.next()
    await clock.advance(20_000)
    const looks = watching.backend.callsOf('inspect').map(({ atMs }) => atMs)
    expect(looks.length).toBeLessThan(25)
    for (const [place, atMs] of looks.entries()) {
      if (place > 1) expect(atMs - (looks[place - 1] ?? 0)).toBeGreaterThanOrEqual(10)
    }
  })

  it('looks soon after the leader has gone, then ever more seldom', async () => {
    const { observer, candidate, clock, watching } = open({ ttlMs: 30_000 })
    observer.next()
    await clock.advance(0)
    const second = observer.next()
    await clock.advance(60_000)
    const looks = watching.backend.callsOf('inspect').length
    expect(looks).toBeLessThan(45)
    await led(clock, candidate('a').next())
    await clock.advance(2000)
    expect(second.state).toBe('resolved')
  })

  it('takes the silence of the store for no news, and goes on', async () => {
    const { observer, candidate, clock, watching } = open()
    const one = candidate('a')
    const term = await led(clock, one.next())
    observer.next()
    await clock.advance(0)
    for (const fault of [DOWN, lostRequest]) {
      watching.backend.always('inspect', fault)
      const round = observer.next()
      await clock.advance(60_000)
      expect(round.state).toBe('pending')
      await term.proclaim(`after ${fault === DOWN ? 'an outage' : 'silence'}`)
      watching.backend.forget('inspect')
      await clock.advance(3100)
      expect(given(round)?.value).toContain('after')
    }
  })

  it('is told of another term also where the value is the same', async () => {
    const { observer, candidate, clock } = open()
    const [one, two] = [candidate('same'), candidate('same')]
    const first = await led(clock, one.next())
    const theirs = two.next()
    observer.next()
    await clock.advance(100)
    const second = observer.next()
    one.end()
    await clock.advance(2000)
    expect(shown(given(second))).toEqual([given(theirs).fencingToken, 'same'])
    expect(given(theirs).fencingToken).not.toBe(first.fencingToken)
  })

  it('is told nothing twice', async () => {
    const { observer, candidate, clock } = open()
    await led(clock, candidate('a').next())
    observer.next()
    await clock.advance(0)
    const second = observer.next()
    await clock.advance(300_000)
    expect(second.state).toBe('pending')
  })

  it('that is slow sees the latest, not a history', async () => {
    const { observer, candidate, clock } = open()
    const term = await led(clock, candidate('a').next())
    observer.next()
    await clock.advance(0)
    for (const value of ['b', 'c', 'd']) await term.proclaim(value)
    const second = observer.next()
    await clock.advance(0)
    expect(given(second)?.value).toBe('d')
  })

  it('leaves no sleep at the store behind', async () => {
    const { observer, candidate, clock, watching } = open()
    const { backend } = watching
    const sleep = backend.wakeUp
    const signals: AbortSignal[] = []
    backend.wakeUp = (lockName, signal) => {
      signals.push(signal)
      return sleep?.(lockName, signal) ?? Promise.resolve()
    }
    const one = candidate('a')
    const term = await led(clock, one.next())
    for (const value of ['b', 'c', 'd']) {
      const round = observer.next()
      await clock.advance(2000)
      given(round)
      await term.proclaim(value)
    }
    expect(signals.length).toBeGreaterThanOrEqual(3)
    expect(signals.filter(({ aborted }) => !aborted)).toEqual([])
  })

  it('does nothing while nobody asks it', async () => {
    const { observer, clock, watching } = open()
    observer.next()
    await clock.advance(0)
    const looks = watching.backend.calls.length
    await clock.advance(600_000)
    expect(watching.backend.calls.length).toBe(looks)
    expect(clock.pendingCount).toBe(0)
  })
})

describe('the end of an observation', () => {
  const before: [string, (all: ReturnType<typeof open>) => unknown][] = [
    ['waiting for a change', ({ clock }) => clock.advance(500)],
    [
      'waiting for the store',
      ({ watching, clock }) => {
        watching.backend.always('inspect', lostRequest)
        return clock.advance(5000)
      },
    ],
  ]
  for (const [title, reach] of before) {
    it(`comes with the abort, without an error: ${title}`, async () => {
      const all = open()
      all.observer.next()
      await all.clock.advance(0)
      const round = all.observer.next()
      await reach(all)
      all.stop.abort()
      await all.clock.advance(0)
      expect(isOver(round)).toBe(true)
      expect(await timersLeft(all.clock)).toBe(0)
    })

    it(`comes with return(), also beside next(): ${title}`, async () => {
      const all = open()
      all.observer.next()
      await all.clock.advance(0)
      const round = all.observer.next()
      await reach(all)
      const end = all.observer.end()
      await all.clock.advance(0)
      expect([end.state, isOver(round)]).toEqual(['resolved', true])
      expect(await timersLeft(all.clock)).toBe(0)
    })
  }

  it('comes with an abort before it began', async () => {
    const { observer, stop, clock, watching } = open()
    stop.abort()
    const first = observer.next()
    await clock.advance(0)
    expect(isOver(first)).toBe(true)
    expect(watching.backend.calls).toEqual([])
  })

  it('comes with an error that waiting cannot mend', async () => {
    const errors = [
      new NotALockError('k', 'it never expires'),
      new BackendUnavailableError('no-permission', 'NOPERM'),
    ]
    for (const error of errors) {
      const { observer, clock, watching } = open()
      watching.backend.always('inspect', refusedWith(error))
      const first = observer.next()
      await clock.advance(0)
      expect(first.error).toBe(error)
    }
    const { observer, clock, watching } = open()
    observer.next()
    await clock.advance(0)
    const second = observer.next()
    void watching.locks.close()
    await clock.advance(8000)
    expect(second.error).toBeInstanceOf(ClosedError)
  })
})

it('a foreign program at the name is nobody who leads', async () => {
  const { observer, clock, watching } = open()
  const foreign = {
    ...{ lockName: NAME, fencingToken: null, holder: null, foreignOwner: 'theirs' },
    ...{ sinceAtMs: null, remainingMs: 100, contenderCount: null },
  }
  watching.backend.always('inspect', () => Promise.resolve(foreign))
  const first = observer.next()
  await clock.advance(0)
  const seen: Leadership | null = given(first)
  expect(seen).toBeNull()
})
