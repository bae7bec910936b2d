import { describe, expect, it } from 'vitest'
import { BackendUnavailableError } from '../../src/core/errors.ts'
import { createElection, type ElectionOptions, type Term } from '../../src/election.ts'
import { given, isOver, led, shown, stepsOf } from '../support/elections.ts'
import { lostRequest, refusedWith } from '../support/faulty-backend.ts'
import { type Engine, openWorld, timersLeft } from '../support/open-engine.ts'

const NAME = 'scheduler'
const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))

// B027: a leader that hangs, or was forgotten, keeps the leadership for as long as its process lives.
it('a leader that does nothing more is lost at maxHoldMs, and another one leads', async () => {
  const world = openWorld()
  const options: ElectionOptions = { ttlMs: 1000, maxHoldMs: 3000 }
  const [forgotten, other] = [world.engine(), world.engine()]
  const term = await led(
    world.clock,
    stepsOf(world.clock, createElection(forgotten.locks, NAME, options).campaign()).next(),
  )
  const theirs = stepsOf(world.clock, createElection(other.locks, NAME, options).campaign()).next()
  await world.clock.advance(2990)
  expect([term.isHeld, theirs.state]).toEqual([true, 'pending'])
  await world.clock.advance(1100)
  expect(term.signal.reason).toHaveProperty('reason', 'max-hold')
  expect(given(theirs).fencingToken).toBeGreaterThan(term.fencingToken)
  expect(forgotten.typesOf(NAME)).toContain('lost')
})

// B087: an election that compares the leader's clock with one's own deposes a leader whose clock is wrong.
it('a wall clock that steps, here or there, deposes nobody and is no news', async () => {
  for (const stepMs of [-600_000, 600_000]) {
    const world = openWorld()
    const [leading, challenging] = [world.engine(), world.engine()]
    const options: ElectionOptions = { ttlMs: 2000 }
    const leader = createElection(leading.locks, NAME, options)
    const term = await led(world.clock, stepsOf(world.clock, leader.campaign()).next())
    const challenger = createElection(challenging.locks, NAME, options)
    const theirs = stepsOf(world.clock, challenger.campaign()).next()
    const observer = stepsOf(world.clock, challenger.observe())
    observer.next()
    await world.clock.advance(100)
    const news = observer.next()
    world.clock.stepWall(stepMs)
    await world.clock.advance(20_000)
    expect([term.isHeld, theirs.state, news.state]).toEqual([true, 'pending', 'pending'])
    await term.proclaim('still here')
    await world.clock.advance(700)
    expect(shown(given(news))).toEqual([term.fencingToken, 'still here'])
  }
})

// B092: a challenger judges by its own short lease, and takes over from a healthy leader with a long one.
it('a challenger with a shorter TTL does not depose a healthy leader', async () => {
  const world = openWorld()
  const [leading, challenging] = [world.engine(), world.engine()]
  const long: ElectionOptions = { ttlMs: 6000, renewEveryMs: 4000 }
  const leader = createElection(leading.locks, NAME, long)
  const term = await led(world.clock, stepsOf(world.clock, leader.campaign()).next())
  const warnings: unknown[] = []
  challenging.locks.on('warning', (warning) => warnings.push(warning))
  const short = createElection(challenging.locks, NAME, { ttlMs: 1000 })
  const theirs = stepsOf(world.clock, short.campaign()).next()
  await world.clock.advance(20_000)
  expect([term.isHeld, theirs.state]).toEqual([true, 'pending'])
  expect(warnings).toMatchObject([
    { code: 'election-settings', option: 'ttlMs', value: 1000, lockName: NAME },
  ])
  // Silent from now on: it is the leader's own TTL that must run out, not the challenger's.
  leading.backend.always('renew', lostRequest)
  const renewed = leading.backend.callsOf('renew').at(-1)?.atMs ?? 0
  await world.clock.advance(8000)
  expect(given(theirs).fencingToken).toBeGreaterThan(term.fencingToken)
  expect((theirs.atMs ?? 0) - renewed).toBeGreaterThanOrEqual(6000)
})

// B093: ownership is judged by the name that somebody chose, and two of one name both lead.
it('candidates with one and the same value and label are two, and one of them leads', async () => {
  for (const [ours, theirs] of [
    ['node-1', 'node-1'],
    ['node-1', 'node-10'],
    ['node-10', 'node-1'],
  ] as const) {
    const world = openWorld()
    const warned: unknown[] = []
    const steps = [ours, theirs].map((value) => {
      const options = { ttlMs: 1000, label: value }
      const { locks } = world.engine()
      locks.on('warning', ({ code, option, value: said }) => warned.push([code, option, said]))
      const election = createElection(locks, NAME, options)
      return stepsOf(world.clock, election.campaign({ value }))
    })
    const rounds = steps.map((one) => one.next())
    await world.clock.advance(10_000)
    expect(rounds.map(({ state }) => state)).toEqual(['resolved', 'pending'])
    // Told to the one that waits, once, and of the very same alone.
    const options = ours === theirs ? ['label', 'value'] : []
    expect(warned).toEqual(options.map((option) => ['election-settings', option, ours]))
    const first = given(rounds[0]!)
    steps[0]?.end()
    await world.clock.advance(1300)
    expect(given(rounds[1]!).fencingToken).toBeGreaterThan(first.fencingToken)
    expect(given(rounds[1]!).owner).not.toBe(first.owner)
  }
})

describe('a candidate is told of the beginning and the end of each of its terms, and of no other', () => {
  // B094: "stopped leading" comes to a process that never led.
  it('one that is stopped while it waits has no term', async () => {
    const world = openWorld()
    const [leading, waiting] = [world.engine(), world.engine()]
    const options: ElectionOptions = { ttlMs: 1000 }
    const leader = createElection(leading.locks, NAME, options)
    await led(world.clock, stepsOf(world.clock, leader.campaign()).next())
    const stop = new AbortController()
    const election = createElection(waiting.locks, NAME, options)
    const round = stepsOf(world.clock, election.campaign({ signal: stop.signal })).next()
    await world.clock.advance(3000)
    stop.abort()
    await world.clock.advance(0)
    expect(isOver(round)).toBe(true)
    expect(waiting.told).toEqual([])
  })

  // B094: a failed renewal is followed by another renewal instead of stepping down.
  it('one whose renewals fail is told once, at its deadline, and renews nothing after it', async () => {
    const world = openWorld()
    const { locks, backend, typesOf } = world.engine()
    const election = createElection(locks, NAME, { ttlMs: 1000 })
    const term = await led(world.clock, stepsOf(world.clock, election.campaign()).next())
    const reasons: unknown[] = []
    term.signal.addEventListener('abort', () => reasons.push(term.signal.reason))
    backend.always('renew', DOWN)
    await world.clock.advance(30_000)
    expect(reasons).toMatchObject([{ reason: 'expired', fencingToken: term.fencingToken }])
    const lostAtMs = 1000 + (reasons[0] as { heldMs: number }).heldMs
    const last = backend.callsOf('renew').at(-1)
    expect(last?.atMs).toBeLessThanOrEqual(lostAtMs)
    expect(typesOf(NAME).filter((type) => type === 'lost')).toHaveLength(1)
  })
})

/** A candidate whose leader's work is counted while it runs. */
function worker(world: ReturnType<typeof openWorld>, engine: Engine, running: Set<Term>) {
  const stop = new AbortController()
  const seen = { most: 0, terms: [] as bigint[] }
  const election = createElection(engine.locks, NAME, { ttlMs: 1000, drainMs: 200 })
  const loop = (async () => {
    for await (const term of election.campaign({ signal: stop.signal })) {
      running.add(term)
      seen.most = Math.max(seen.most, running.size)
      seen.terms.push(term.fencingToken)
      await new Promise<void>((resolve) => {
        if (term.signal.aborted) resolve()
        term.signal.addEventListener('abort', () => resolve(), { once: true })
      })
      running.delete(term)
    }
  })()
  return { stop, seen, loop, clock: world.clock }
}

// B095: after an outage of the store nobody leads any more, two lead, or one process does the work twice.
describe('after an outage of the store exactly one leads', () => {
  for (const outageMs of [50, 1000, 6000, 180_000]) {
    for (const [kind, fault] of [
      ['refuses', DOWN],
      ['is silent', lostRequest],
    ] as const) {
      it(`of ${outageMs} ms, with a TTL of 1 s, in which it ${kind}`, async () => {
        const world = openWorld()
        const engines = [world.engine(), world.engine(), world.engine()]
        const running = new Set<Term>()
        const workers = engines.map((engine) => worker(world, engine, running))
        await world.clock.advance(5000)
        expect(running.size).toBe(1)
        const methods = ['tryAcquire', 'renew', 'release', 'handOver', 'cancel', 'inspect'] as const
        for (const { backend } of engines) {
          for (const method of methods) backend.always(method, fault)
        }
        await world.clock.advance(outageMs)
        expect(running.size).toBe(outageMs >= 1000 ? 0 : 1)
        for (const { backend } of engines) for (const method of methods) backend.forget(method)
        // The longest pause between two tries, the pace after a loss, and a TTL that must run out.
        await world.clock.advance(8000)
        expect(running.size).toBe(1)
        const terms = workers.flatMap(({ seen }) => seen.terms)
        expect(new Set(terms).size).toBe(terms.length)
        expect(Math.max(...workers.map(({ seen }) => seen.most))).toBe(1)
        for (const { stop } of workers) stop.abort()
        await world.clock.advance(1000)
        await Promise.all(workers.map(({ loop }) => loop))
        expect(running.size).toBe(0)
        expect(await timersLeft(world.clock)).toBe(0)
      })
    }
  }
})
