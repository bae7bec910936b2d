import fc from 'fast-check'
import { expect, it } from 'vitest'
import { createElection, type Election, type Term } from '../../../src/election.ts'
import { randomWords, type VirtualClock } from '../../../src/testkit/virtual-clock.ts'
import { type Fault, lostReply, lostRequest } from '../../support/faulty-backend.ts'
import { type Engine, openWorld, timersLeft, type World } from '../../support/open-engine.ts'

const NAME = 'scheduler'
const TTL_MS = 1000
const DRAIN_MS = 400

/** What the bodies of one candidate do, in turn. */
type Act =
  | 'end'
  | 'work'
  | 'work by the signal'
  | 'resign'
  | 'resign twice'
  | 'proclaim'
  | 'throw'
  | 'leave'
  | 'sleep through'

type Plan = Readonly<{
  acts: readonly Act[]
  abortAfterMs: number | null
  endAfterMs: number | null
}>

const plan: fc.Arbitrary<Plan> = fc.record({
  acts: fc.array(
    fc.constantFrom<Act>(
      ...(['end', 'work', 'work by the signal', 'resign', 'resign twice'] as const),
      ...(['proclaim', 'throw', 'leave', 'sleep through'] as const),
    ),
    { minLength: 1, maxLength: 4 },
  ),
  abortAfterMs: fc.option(fc.integer({ min: 0, max: 6000 }), { nil: null }),
  endAfterMs: fc.option(fc.integer({ min: 0, max: 6000 }), { nil: null, freq: 2 }),
})

/** Every so many-th request of the store is lost, or its answer. */
type Network = Readonly<{ seed: number; lostShare: number }>

const network: fc.Arbitrary<Network> = fc.record({
  seed: fc.integer({ min: 1, max: 1_000_000 }),
  lostShare: fc.constantFrom(0, 0, 0.1, 0.3),
})

function lose({ backend }: Engine, { seed, lostShare }: Network): void {
  const words = randomWords(seed)
  const chance = (): boolean => words() / 2 ** 32 < lostShare
  const faulty: Fault = (apply) => {
    if (chance()) return lostRequest(apply)
    return chance() ? lostReply(apply) : apply()
  }
  for (const method of ['tryAcquire', 'renew', 'release', 'proclaim', 'inspect'] as const) {
    backend.always(method, faulty)
  }
}

/** What the bodies of all candidates saw, judged as it happens. */
class Book {
  readonly complaints: string[] = []
  readonly terms: bigint[] = []
  readonly #running = new Map<number, number>()
  readonly #held = new Set<Term>()

  begin(candidate: number, term: Term): void {
    const running = (this.#running.get(candidate) ?? 0) + 1
    this.#running.set(candidate, running)
    if (running > 1) this.complaints.push(`candidate ${candidate} runs ${running} bodies`)
    for (const other of this.#held) {
      if (other.isHeld) this.complaints.push(`${other.fencingToken} and ${term.fencingToken} hold`)
    }
    const last = this.terms.at(-1) ?? 0n
    if (term.fencingToken <= last) this.complaints.push(`${term.fencingToken} after ${last}`)
    this.terms.push(term.fencingToken)
    this.#held.add(term)
  }

  end(candidate: number): void {
    this.#running.set(candidate, (this.#running.get(candidate) ?? 0) - 1)
  }
}

async function act(clock: VirtualClock, term: Term, what: Act): Promise<'go on' | 'leave'> {
  const pass = (ms: number): Promise<void> => new Promise((resolve) => clock.after(ms, resolve))
  switch (what) {
    case 'work':
      await pass(300)
      break
    case 'work by the signal':
      await Promise.race([
        pass(2500),
        new Promise((resolve) => term.signal.addEventListener('abort', resolve, { once: true })),
      ])
      break
    case 'sleep through':
      clock.block(TTL_MS + 200)
      await pass(1)
      break
    case 'resign':
      await Promise.allSettled([term.resign()])
      await pass(50)
      break
    case 'resign twice':
      await Promise.allSettled([term.resign(), term.resign()])
      break
    case 'proclaim':
      await Promise.allSettled([term.proclaim('x')])
      break
    case 'throw':
      await pass(10)
      throw new Error('from the body')
    case 'leave':
      return 'leave'
    case 'end':
      break
  }
  return 'go on'
}

async function run(
  world: World,
  election: Election,
  book: Book,
  candidate: number,
  { acts, abortAfterMs, endAfterMs }: Plan,
): Promise<void> {
  const { clock } = world
  const stop = new AbortController()
  clock.after(8000, () => stop.abort())
  if (abortAfterMs !== null) clock.after(abortAfterMs, () => stop.abort())
  const loop = election.campaign({ signal: stop.signal, value: `${candidate}` })
  const iterator = loop[Symbol.asyncIterator]()
  if (endAfterMs !== null) clock.after(endAfterMs, () => void iterator.return?.())
  let round = 0
  try {
    for await (const term of { [Symbol.asyncIterator]: () => iterator }) {
      book.begin(candidate, term)
      try {
        const what = acts[round % acts.length] ?? 'end'
        round += 1
        if ((await act(clock, term, what)) === 'leave') break
      } finally {
        book.end(candidate)
      }
    }
  } catch (error) {
    expect((error as Error).message).toBe('from the body')
  }
}

// One process never runs two bodies, two terms never hold at once, and terms rise, whatever bodies do,
// whatever is lost on the way, and whoever ends the campaign when.
it('keeps its promises in 400 random campaigns of three candidates', async () => {
  let termCount = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(plan, { minLength: 3, maxLength: 3 }),
      network,
      async (plans, net) => {
        const world = openWorld()
        const book = new Book()
        const engines = [world.engine(), world.engine()]
        for (const [place, engine] of engines.entries()) {
          lose(engine, { ...net, seed: net.seed + place })
        }
        // The first two are two elections in one process.
        const homes = [engines[0], engines[0], engines[1]] as [Engine, Engine, Engine]
        const loops = plans.map((one, candidate) => {
          const options = { ttlMs: TTL_MS, drainMs: DRAIN_MS }
          const election = createElection(homes[candidate]!.locks, NAME, options)
          return run(world, election, book, candidate, one)
        })
        await world.clock.advance(20_000)
        await Promise.all(loops)
        termCount += book.terms.length
        expect(book.complaints).toEqual([])
        expect(await timersLeft(world.clock)).toBe(0)
        expect(await world.store.inspect(NAME)).toBeNull()
      },
    ),
    { numRuns: 400 },
  )
  // A model in which nobody leads proves nothing.
  expect(termCount).toBeGreaterThan(1000)
})
