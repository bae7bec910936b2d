/**
 * A candidate: a process that stands, leads when it is elected, and writes once for each of its terms. When
 * the lab says so it resigns, or writes once more by a term that is over: with nothing but the token that
 * it was granted, as one that had checked its term just before.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Fenced, LockError, type Locks } from 'holdfast'
import { createElection, type Term } from 'holdfast/election'
import type { Addresses } from '../../scenario.ts'
import { monotonicUs } from '../../time.ts'
import type { Job, Program } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { type Book, bookIn } from './book.ts'
import { openKeeper, type Reach } from './stores.ts'

export interface CandidateInput {
  readonly addresses: Addresses
  /** How who keeps the locks is reached. */
  readonly reach: Reach
  readonly electionName: string
  readonly ttlMs: number
  /** Nobody looks at tokens: the arm without protection. */
  readonly isBare: boolean
}

const LISTEN_MS = 2

/** @param ground Where the data are. */
export function candidateProgram(ground: Ground): Program {
  return async (job) => {
    const input = job.input as CandidateInput
    const { locks, close } = await openKeeper(input.reach, input.addresses, job.role)
    const data = await ground.openData(input.addresses, job.role)
    const candidate = new Candidate(job, input, bookIn(data, input.isBare), locks)
    try {
      await candidate.stand()
    } finally {
      await locks.close()
      close()
      await data.close()
    }
  }
}

class Candidate {
  readonly #job: Job
  readonly #input: CandidateInput
  readonly #book: Book
  readonly #locks: Locks
  /** By term, those that are over too. */
  readonly #terms = new Map<string, Term>()

  constructor(job: Job, input: CandidateInput, book: Book, locks: Locks) {
    this.#job = job
    this.#input = input
    this.#book = book
    this.#locks = locks
  }

  async stand(): Promise<void> {
    const { electionName, ttlMs } = this.#input
    const stop = new AbortController()
    const listening = this.#listen(stop)
    const election = createElection(this.#locks, electionName, { ttlMs })
    // On its way before it stands, so that the lab never waits for somebody who leads already.
    await this.#job.mark('standing')
    try {
      for await (const term of election.campaign({ value: this.#job.role, signal: stop.signal })) {
        const token = `${term.fencingToken}`
        this.#terms.set(token, term)
        await this.#write('write', term)
        await this.#job.mark(`led ${token}`)
        await over(term.signal)
      }
    } finally {
      stop.abort()
      await listening
    }
  }

  /** What the lab says of a term that this candidate leads, or led. */
  async #listen(stop: AbortController): Promise<void> {
    const done = new Set<string>()
    while (!stop.signal.aborted) {
      if (this.#job.hasReached('end')) stop.abort()
      for (const [token, term] of this.#terms) {
        for (const what of ['resign', 'late'] as const) {
          const mark = `${what} ${token}`
          if (done.has(mark) || !this.#job.hasReached(mark)) continue
          done.add(mark)
          await (what === 'late' ? this.#write(what, term) : this.#resign(term))
          await this.#job.mark(`done ${mark}`)
        }
      }
      await sleep(LISTEN_MS)
    }
  }

  async #resign(term: Term): Promise<void> {
    const token = `${term.fencingToken}`
    await this.#job.call('resign', async () => ({ answer: await term.resign(), token }))
  }

  async #write(op: 'write' | 'late', term: Term): Promise<void> {
    const { lockName, fencingToken, owner, source } = term
    const fenced: Fenced = { lockName, fencingToken, owner, source }
    const calledAtUs = monotonicUs()
    const answer = await this.#book.write(fenced, this.#job.role).then(
      () => 'accepted',
      (error: unknown) => {
        if (error instanceof LockError) return error.code
        throw error
      },
    )
    this.#job.note(op, calledAtUs, { answer, token: `${fencingToken}` })
  }
}

function over(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve()
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
}
