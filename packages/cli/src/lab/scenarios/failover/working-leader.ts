/**
 * A candidate that works when it leads: it writes through the guard all the time, by its term, until it is
 * told that the term is over.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { LockError } from 'holdfast'
import { createElection, type Term } from 'holdfast/election'
import { monotonicUs } from '../../time.ts'
import type { Job, Program } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { type Book, bookIn } from './book.ts'
import type { CandidateInput } from './candidates.ts'
import { openKeeper } from './stores.ts'

const WRITE_EVERY_MS = 20
const LISTEN_MS = 20

/** @param ground Where the data are. */
export function workingLeaderProgram(ground: Ground): Program {
  return async (job) => {
    const { reach, addresses, electionName, ttlMs, isBare } = job.input as CandidateInput
    const { locks, close } = await openKeeper(reach, addresses, job.role)
    const data = await ground.openData(addresses, job.role)
    const book = bookIn(data, isBare)
    const stop = new AbortController()
    const listening = untilEnd(job).then(() => stop.abort())
    try {
      const election = createElection(locks, electionName, { ttlMs })
      for await (const term of election.campaign({ value: job.role, signal: stop.signal })) {
        await lead(job, book, term, stop.signal)
      }
      await listening
    } finally {
      await locks.close()
      close()
      await data.close()
    }
  }
}

async function untilEnd(job: Job): Promise<void> {
  while (!job.hasReached('end')) await sleep(LISTEN_MS)
}

async function lead(job: Job, book: Book, term: Term, end: AbortSignal): Promise<void> {
  const token = `${term.fencingToken}`
  job.note('elected', monotonicUs(), { answer: 'leads', token })
  const hear = (): void => {
    if (end.aborted) return
    job.note('told', monotonicUs(), { answer: 'over', token, detail: String(term.signal.reason) })
  }
  term.signal.addEventListener('abort', hear, { once: true })
  if (term.signal.aborted) hear()
  while (!term.signal.aborted) {
    const calledAtUs = monotonicUs()
    const answer = await book.write(term, job.role).then(
      () => 'accepted',
      (error: unknown) => {
        if (error instanceof LockError) return error.code
        throw error
      },
    )
    job.note('write', calledAtUs, { answer, token })
    await sleep(WRITE_EVERY_MS)
  }
}
