import { describe, expect, it } from 'vitest'
import type { Capabilities } from '../../../src/core/capabilities.ts'
import { BackendUnavailableError } from '../../../src/core/errors.ts'
import { createElection, type ElectionOptions } from '../../../src/election.ts'
import { given, led, stepsOf } from '../../support/elections.ts'
import { gate, lostRequest, refusedWith } from '../../support/faulty-backend.ts'
import { openWorld, type World } from '../../support/open-engine.ts'

const NAME = 'scheduler'
const OPTIONS: ElectionOptions = { ttlMs: 3000 }
const DOWN = refusedWith(new BackendUnavailableError('down', 'connection refused'))

function open(
  world: World = openWorld(),
  options: ElectionOptions = OPTIONS,
  claims: Partial<Capabilities> = {},
) {
  const engine = world.engine({ claims })
  const election = createElection(engine.locks, NAME, options)
  const candidate = (campaign?: Parameters<typeof election.campaign>[0]) =>
    stepsOf(world.clock, election.campaign(campaign))
  return { ...world, ...engine, election, candidate }
}

describe('the pace of a candidate that has led', () => {
  const QUEUE = { order: 'queue' } as const
  const resigned = async (world: ReturnType<typeof open>) => {
    const one = world.candidate()
    await led(world.clock, one.next())
    return { one, second: one.next(), fromMs: world.clock.nowMs() }
  }

  // The accident: the leader that resigns is the nearest to the store, and leads again each time.
  it('is min(ttl, 1 s) and a little where nobody else leads', async () => {
    for (const jitter of [0, 0.999]) {
      const world = open(openWorld({ jitter }))
      const { second, fromMs } = await resigned(world)
      await world.clock.advance(1000 * (1 + 0.25 * jitter) - 1)
      expect(second.state).toBe('pending')
      await world.clock.advance(2)
      expect(second.state).toBe('resolved')
      expect((second.atMs ?? 0) - fromMs).toBeGreaterThanOrEqual(1000)
    }
  })

  it('is the TTL where that is shorter than 1 s', async () => {
    const world = open(openWorld({ jitter: 0 }), { ttlMs: 300 })
    const { second } = await resigned(world)
    await world.clock.advance(299)
    expect(second.state).toBe('pending')
    await world.clock.advance(1)
    expect(second.state).toBe('resolved')
  })

  it('ends as soon as another leader is seen: it stands in line again then', async () => {
    const world = open()
    const other = world.engine()
    const theirs = stepsOf(world.clock, createElection(other.locks, NAME, OPTIONS).campaign())
    const { second, fromMs } = await resigned(world)
    const their = theirs.next()
    await world.clock.advance(200)
    expect(their.state).toBe('resolved')
    const asked = world.backend.callsOf('tryAcquire').filter(({ atMs }) => atMs >= fromMs)
    expect(asked.length).toBeGreaterThan(0)
    expect((asked[0]?.atMs ?? Number.NaN) - fromMs).toBeLessThan(200)
    theirs.end()
    await world.clock.advance(50)
    expect(second.state).toBe('resolved')
  })

  // Its own entry, which is still there, is nobody else.
  it('is kept while the store has not confirmed the release', async () => {
    const world = open(openWorld({ jitter: 0 }), { ttlMs: 10_000 })
    world.backend.always('release', DOWN)
    const { fromMs } = await resigned(world)
    await world.clock.advance(4000)
    const asked = world.backend.callsOf('tryAcquire').find(({ atMs }) => atMs > fromMs)
    const failed = world.told.find(({ type }) => type === 'release-failed')
    expect((asked?.atMs ?? 0) - (failed?.atMs ?? 0)).toBeGreaterThanOrEqual(1000)
  })

  it('is none on a store with a queue, which lets the others come first itself', async () => {
    const world = open(openWorld(), OPTIONS, QUEUE)
    const { second } = await resigned(world)
    await world.clock.advance(10)
    expect(second.state).toBe('resolved')
  })

  // The accident: two with nothing to do hand the leadership to each other in one turn of the event loop
  // for ever, and no timer of the process runs any more.
  it('is 10 ms in any case, also between two in one process', async () => {
    for (const claims of [{}, QUEUE]) {
      const world = open(openWorld(), OPTIONS, claims)
      let count = 0
      const stop = new AbortController()
      const campaign = world.election.campaign({ signal: stop.signal })
      const loops = [1, 2].map(async () => {
        for await (const term of campaign) {
          count += 1
          expect(term.isHeld).toBe(true)
          if (count > 1000) throw new Error('terms without end')
        }
      })
      await world.clock.advance(1000)
      expect(count).toBeGreaterThan(claims === QUEUE ? 100 : 1)
      expect(count).toBeLessThanOrEqual(202)
      stop.abort()
      await world.clock.advance(0)
      await Promise.all(loops)
    }
  })

  // The accident: the new term begins while the old one's release is still on its way, and ends with it.
  it('begins when the store has answered the release of the term before', async () => {
    const world = open(openWorld(), OPTIONS, QUEUE)
    const one = world.candidate()
    await led(world.clock, one.next())
    const slow = gate()
    world.backend.next('release', slow.fault)
    const second = one.next()
    await world.clock.advance(0)
    await slow.arrive()
    const asked = world.backend.callsOf('tryAcquire').length
    await world.clock.advance(500)
    expect(world.backend.callsOf('tryAcquire')).toHaveLength(asked)
    await slow.answer()
    await world.clock.advance(10)
    expect(given(second).isHeld).toBe(true)
  })

  // The accident: a store that takes each term away at once, and a campaign that makes terms without end.
  it('is kept after a loss everywhere', async () => {
    const world = open(openWorld({ jitter: 0 }), OPTIONS, QUEUE)
    const { one, second } = await resigned(world)
    await world.clock.advance(10)
    given(second)
    world.backend.always('renew', lostRequest)
    await world.clock.advance(3000)
    expect(given(second).isHeld).toBe(false)
    world.backend.forget('renew')
    const fromMs = world.clock.nowMs()
    const third = one.next()
    await world.clock.advance(5000)
    expect((third.atMs ?? 0) - fromMs).toBeGreaterThanOrEqual(1000)
  })
})
