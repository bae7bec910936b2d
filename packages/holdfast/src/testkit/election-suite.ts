/**
 * What an election promises, on a store: the recipe is one, but what it shows and how soon somebody else
 * leads is the store's doing. Two backends with a connection each, which is how a store sees two processes.
 *
 * Durations are waited for, never raced against, as in the backend's own suite.
 */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import type { LeaseOptions } from '../core/lease.ts'
import { createLocksWith } from '../lock/lock.ts'
import type { Election, Leadership, Term } from '../recipes/election/contract.ts'
import { createElection } from '../recipes/election/election.ts'
import {
  type BackendHarness,
  type Check,
  checksOf,
  type Store,
  type TestRunner,
} from './backend-harness.ts'

/** Long enough that a busy machine loses no term by accident. */
const CALM_TTL_MS = 10_000
/** For terms that are to end by themselves. */
const BRIEF_TTL_MS = 500

/**
 * Registers what an election promises as tests, on the backends that a harness of `testBackend` opens.
 *
 * Needs about a minute of patience per test at most: set the runner's time-out to that.
 *
 * @param runner `describe` and `it` of vitest, or of `node:test`.
 */
export function testElection(runner: TestRunner, harness: BackendHarness): void {
  const check = checksOf(runner, harness)
  runner.describe(`${harness.title}: election`, () => {
    testSuccession(check)
    testDeposing(check)
    testShowing(check)
  })
}

/** One candidate, step by step. */
interface Candidate {
  readonly election: Election
  /** The body before it ended; the next term. */
  next(): Promise<IteratorResult<Term, undefined>>
  /** The next term; fails where the campaign is over instead. */
  leads(): Promise<Term>
  end(): Promise<unknown>
}

function open(store: Store, ttlMs: number, options: LeaseOptions = {}) {
  const { seams, lockName } = store
  const ttl = Math.max(ttlMs, store.ttlMs, store.ours.capabilities.ttlMsMin)
  const made = [store.ours, store.theirs].map((backend, place) => {
    const locks = createLocksWith(seams, backend)
    const election = createElection(locks, lockName, { ttlMs: ttl, ...options })
    const stop = new AbortController()
    const value = place === 0 ? 'ours' : 'theirs'
    const loop = election.campaign({ value, signal: stop.signal })
    const iterator = loop[Symbol.asyncIterator]() as AsyncIterator<Term, undefined>
    const candidate: Candidate = {
      election,
      next: () => iterator.next(),
      leads: async () => {
        const round = await store.settled(iterator.next(), `${value} leads`)
        if (round.done === true) throw new Error(`the campaign of ${value} is over`)
        return round.value
      },
      end: () => store.settled(Promise.resolve(iterator.return?.()), 'the end of a campaign'),
    }
    return { candidate, stop, locks }
  })
  const [ours, theirs] = made as [(typeof made)[0], (typeof made)[0]]
  return { ours, theirs, ttlMs: ttl }
}

const shown = (seen: Leadership | null): unknown => seen && [seen.fencingToken, seen.value]

function testSuccession(check: Check): void {
  check('one of two leads; the other does when it resigns, in a later term', async (store) => {
    const { ours, theirs } = open(store, CALM_TTL_MS)
    const first = await ours.candidate.leads()
    let next: Term | null = null
    const waiting = theirs.candidate.leads().then((term) => {
      next = term
      return term
    })
    await store.lapse(200)
    strictEqual(next, null)
    strictEqual(await store.settled(first.resign(), 'a resignation'), 'released')
    const second = await waiting
    ok(second.fencingToken > first.fencingToken)
    strictEqual(first.isHeld, false)
    await theirs.candidate.end()
    await ours.candidate.end()
    strictEqual(await store.settled(ours.candidate.election.leader(), 'a look'), null)
  })

  check('two who end their bodies at once lead by turns, in terms that rise', async (store) => {
    const { ours, theirs } = open(store, CALM_TTL_MS)
    const seen: [string, bigint][] = []
    const run = async (who: string, { leads, end }: Candidate): Promise<void> => {
      while (seen.length < 6) {
        const { fencingToken } = await leads()
        seen.push([who, fencingToken])
        await store.lapse(20)
      }
      await end()
    }
    await Promise.all([run('ours', ours.candidate), run('theirs', theirs.candidate)])
    const terms = seen.map(([, term]) => term)
    deepStrictEqual(
      terms,
      [...new Set(terms)].sort((a, b) => (a < b ? -1 : 1)),
    )
    const who = seen.map(([name]) => name)
    ok(who.includes('ours') && who.includes('theirs'), `led by turns: ${who.join(', ')}`)
  })

  check('a campaign that is ended while it waits leaves nobody behind', async (store) => {
    const { ours, theirs } = open(store, CALM_TTL_MS)
    await ours.candidate.leads()
    const waiting = theirs.candidate.next()
    await store.lapse(100)
    theirs.stop.abort()
    strictEqual((await store.settled(waiting, 'the end')).done, true)
    await ours.candidate.end()
    await store.lapse(200)
    strictEqual(await store.settled(ours.candidate.election.leader(), 'a look'), null)
  })

  check('a leader that is told to stop drains, and the next one leads after it', async (store) => {
    const { ours, theirs } = open(store, CALM_TTL_MS)
    const first = await ours.candidate.leads()
    const waiting = theirs.candidate.leads()
    ours.stop.abort(new Error('deploying'))
    strictEqual((first.signal.reason as Error).message, 'deploying')
    await store.settled(first.proclaim('last words'), 'a proclamation')
    first.assertValid()
    strictEqual((await store.settled(ours.candidate.next(), 'the end')).done, true)
    const second = await waiting
    ok(second.fencingToken > first.fencingToken)
    await theirs.candidate.end()
  })
}

function testDeposing(check: Check): void {
  check(
    'a leader that falls silent is told, and what it does later reaches nobody',
    async (store) => {
      const { ours, theirs } = open(store, BRIEF_TTL_MS, { renew: false })
      const first = await ours.candidate.leads()
      const second = await theirs.candidate.leads()
      ok(second.fencingToken > first.fencingToken)
      strictEqual(first.isHeld, false)
      strictEqual(first.signal.aborted, true)
      await rejects(store.settled(first.proclaim('late'), 'a proclamation'), { code: 'LEASE_LOST' })
      strictEqual(await store.settled(first.resign(), 'a resignation'), 'not-held')
      const leadership = await store.settled(theirs.candidate.election.leader(), 'a look')
      if (second.isHeld) deepStrictEqual(shown(leadership), [second.fencingToken, 'theirs'])
      await ours.candidate.end()
      await theirs.candidate.end()
    },
  )

  check('a leader that an operator deposes is told, and leads again after it', async (store) => {
    const { ours, theirs } = open(store, BRIEF_TTL_MS * 4)
    const { lockName } = store
    const first = await ours.candidate.leads()
    const seen = { fencingToken: first.fencingToken, reason: 'it hangs' }
    const taken = await store.settled(theirs.locks.revoke(lockName, seen), 'a revocation')
    ok(taken !== null && taken.fencingToken > first.fencingToken)
    await rejects(store.settled(first.proclaim('x'), 'a proclamation'), { code: 'LEASE_LOST' })
    strictEqual(first.signal.aborted, true)
    const again = ours.candidate.leads()
    await store.settled(taken.release(), 'a release')
    ok((await again).fencingToken > taken.fencingToken)
    await ours.candidate.end()
  })
}

function testShowing(check: Check): void {
  check('everybody sees who leads, with the value that it came with', async (store) => {
    const { ours, theirs } = open(store, CALM_TTL_MS)
    const look = () => store.settled(theirs.candidate.election.leader(), 'a look')
    strictEqual(await look(), null)
    const term = await ours.candidate.leads()
    const seen = await look()
    deepStrictEqual(shown(seen), [term.fencingToken, 'ours'])
    strictEqual(seen?.holder?.pid, process.pid)
    ok(seen?.sinceAtMs === null || Math.abs((seen?.sinceAtMs ?? 0) - store.seams.wallMs()) < 60_000)
    await store.settled(term.proclaim('warm'), 'a proclamation')
    deepStrictEqual(shown(await look()), [term.fencingToken, 'warm'])
    await store.settled(term.renew(), 'a renewal')
    deepStrictEqual(shown(await look()), [term.fencingToken, 'warm'])
    await ours.candidate.end()
    strictEqual(await look(), null)
  })

  check('an observer that is no candidate is told of every change', async (store) => {
    const { ours, theirs } = open(store, CALM_TTL_MS)
    const stop = new AbortController()
    const observed = theirs.candidate.election.observe({ signal: stop.signal })
    const observer = observed[Symbol.asyncIterator]() as AsyncIterator<Leadership | null, undefined>
    const told = async (what: string): Promise<unknown> => {
      const round = await store.settled(observer.next(), what)
      return round.done === true ? 'over' : shown(round.value)
    }
    strictEqual(await told('the beginning'), null)
    const term = await ours.candidate.leads()
    deepStrictEqual(await told('a leader'), [term.fencingToken, 'ours'])
    const change = told('a proclamation')
    await store.lapse(50)
    await store.settled(term.proclaim('warm'), 'a proclamation')
    deepStrictEqual(await change, [term.fencingToken, 'warm'])
    const end = told('a resignation')
    await store.lapse(50)
    await ours.candidate.end()
    strictEqual(await end, null)
    const last = told('the end of the observation')
    stop.abort()
    strictEqual(await last, 'over')
  })
}
