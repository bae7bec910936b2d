/** The arm in which nothing fails: a job of ten TTLs keeps its lock, and somebody asks all the time. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Locks } from 'holdfast'
import { monotonicUs } from '../../time.ts'
import type { Job, Trial } from '../../trial.ts'
import { unanswered } from '../answers.ts'
import type { HeldLock } from './holder.ts'
import type { JobStore, OpenJobStore } from './job-store.ts'
import { locksOf, startHolders, sumOf, untilCounted } from './passes.ts'
import { Pulse } from './pulse.ts'
import { GAP_MS_MAX, JOB_TTL_MS, JOB_TTLS } from './times.ts'

const LOOK_EVERY_MS = 100

export async function keepForLong(trial: Trial, open: OpenJobStore): Promise<null> {
  await untilCounted(trial, async (first, count) => {
    const locks = locksOf(trial, first, count, JOB_TTL_MS)
    const store = await open(trial, locks)
    const counted = await onePass(trial, store, locks)
    await store.close()
    return counted
  })
  return null
}

/** @returns how many rounds were those of a running holder, and of a running lab. */
async function onePass(trial: Trial, store: JobStore, locks: readonly HeldLock[]): Promise<number> {
  const holders = { clients: store.clients, store: store.forHolders, ttlMs: JOB_TTL_MS }
  const { hold, ask } = store.programs ?? { hold: 'holdForLong', ask: 'ask' }
  const { workers, work } = await startHolders(trial, holders, locks, hold)
  await store.whenHeld?.()
  const asker = await trial.startWorker('asker')
  const { everyMs = LOOK_EVERY_MS } = store
  const asking = asker.run(ask, 0, { ...store.forOthers, locks, everyMs })
  await asker.until('asking')
  const beganAtUs = monotonicUs()
  const pulse = new Pulse()
  const endAtMs = performance.now() + JOB_TTL_MS * JOB_TTLS
  while (performance.now() < endAtMs) {
    for (const lock of locks) await look(trial, store, lock)
    await sleep(everyMs)
  }
  const gapMs = pulse.longestGapMs()
  pulse.stop()
  for (const { round } of locks) {
    trial.note(round, 'job', beganAtUs, { answer: 'over', value: gapMs })
  }
  for (const worker of workers) worker.mark('job-over')
  const running = await Promise.all(work)
  asker.mark('job-over')
  await asking
  await Promise.all([...workers, asker].map((worker) => worker.kill()))
  return gapMs > GAP_MS_MAX ? 0 : sumOf(running)
}

/** Whose it is and how long yet, by the store's own word. */
async function look(trial: Trial, store: JobStore, { name, round }: HeldLock): Promise<void> {
  await trial.call(round, 'look', async () => {
    const { owner, leftMs } = await store.look(name)
    return { answer: 'seen', detail: owner, value: leftMs }
  })
}

/** Asks for every lock in turn, while the job lasts and once when it is over. */
export async function askInTurn(job: Job, locks: Locks, names: readonly HeldLock[]): Promise<void> {
  const { everyMs } = job.input as { readonly everyMs: number }
  const askAll = async (): Promise<void> => {
    for (const { name, round } of names) {
      const calledAtUs = monotonicUs()
      const lease = await locks.tryAcquire(name, { ttlMs: JOB_TTL_MS }).catch(unanswered)
      // It was no answer, so it says nothing.
      if (lease === 'unanswered') continue
      job.note('ask', calledAtUs, { answer: lease === null ? 'refused' : 'granted' }, round)
      await lease?.release()
    }
  }
  await askAll()
  await job.mark('asking')
  while (!job.hasReached('job-over')) {
    await askAll()
    await sleep(everyMs)
  }
  await askAll()
}
