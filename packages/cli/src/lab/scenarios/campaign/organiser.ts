/** The lab's part of a campaign: opens it, starts the pods together, and reads the book at its end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import type { Ground } from '../ground/ground.ts'
import { type Book, openBook, readBook, remainingIn } from './book.ts'
import type { PodInput } from './pod.ts'

export const PODS = 8
/** Of each pod: one, and one more for each so many prizes. */
const PRIZES_PER_PAUSE = 4_000
/** Pauses fall into this part of what a pod gives out if all give out the same. */
const PAUSES_WITHIN = 0.8
const PROGRESS_MS = 500

export async function campaignIn(trial: Trial, ground: Ground): Promise<Book> {
  const { place, size, addresses } = trial
  const { db, guard, close } = await ground.openData(addresses, 'lab')
  trial.onEnd(close)
  await guard.migrate()
  await openBook(db, place, size)
  const pods = await Promise.all(
    Array.from({ length: PODS }, (_, number) => trial.startWorker(`pod-${number}`)),
  )
  const work = pods.map((pod) => {
    const pauseAt = pausesOf(trial, pod.role)
    const input: PodInput = { campaign: place, addresses, prizes: size, pauseAt }
    return pod.run('givePrizes', 0, input)
  })
  await Promise.all(pods.map((pod) => pod.until('ready')))
  const calledAtUs = monotonicUs()
  for (const pod of pods) pod.mark('begin')
  await untilOver(Promise.all(work), async () => {
    trial.progress(size - (await remainingIn(db, place)))
  })
  trial.note(0, 'campaign', calledAtUs, { answer: 'over' })
  return readBook(db, place)
}

/** In which of its tries a pod pauses; without a lock nobody does, the race alone is enough. */
function pausesOf(trial: Trial, pod: string): number[] {
  if (trial.arm === 'no lock') return []
  const count = 1 + Math.floor(trial.size / PRIZES_PER_PAUSE)
  const distance = (trial.size / PODS / count) * PAUSES_WITHIN
  return Array.from({ length: count }, (_, index) => {
    return 1 + Math.floor((index + trial.draw(`${pod}/pause ${index}`)) * distance)
  })
}

/** Calls `look` now and then until the work is over; bounded by the arm's own bound. */
async function untilOver(work: Promise<unknown>, look: () => Promise<void>): Promise<void> {
  let isOver = false
  const over = work.finally(() => {
    isOver = true
  })
  while (!isOver) {
    await Promise.race([over, sleep(PROGRESS_MS)])
    await look()
  }
  await over
}
