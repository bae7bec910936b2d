/** The arm in which both sides ask for locks that nobody holds. */
import { monotonicUs } from '../../time.ts'
import type { Program, Trial, TrialWorker } from '../../trial.ts'
import { askOnce } from '../quorum/ask-once.ts'
import { type Driver, openLocks } from '../quorum/locks.ts'
import type { HeldLock } from '../watchdog/holder.ts'
import { locksOf, untilCounted } from '../watchdog/passes.ts'
import { Pulse } from '../watchdog/pulse.ts'
import { noteAlone, type OpenParts } from './parts.ts'

const TTL_MS = 10_000
/** Of the minority, which waits to the end. */
const REFUSED_WAIT_MS = 1_500
/** For what must be granted, on a machine with every core taken. */
const GRANTED_WAIT_MS = 30_000

interface Step {
  /** What the lab calls it in the history. */
  readonly op: string
  readonly waitMs: number
}

export interface AskingInput {
  readonly ports: readonly number[]
  readonly driver: Driver
  readonly locks: readonly HeldLock[]
  readonly steps: readonly Step[]
}

/** Takes every lock and gives it back, once in each step; the lab says when. */
export const askInSteps: Program = async (job) => {
  const { ports, driver, steps, locks: wanted } = job.input as AskingInput
  const opened = await openLocks(driver, ports, { onEmpty: 'fresh' })
  const pulse = new Pulse()
  for (const step of steps) {
    await job.until(step.op)
    const { op, waitMs } = step
    await Promise.all(
      wanted.map(({ name, round }) =>
        askOnce(job, opened.locks, pulse, { op, round, name, ttlMs: TTL_MS, waitMs }),
      ),
    )
    await job.mark(`over:${step.op}`)
  }
  pulse.stop()
  opened.close()
}

export function askOnBothSides(open: OpenParts): (trial: Trial) => Promise<null> {
  return async (trial) => {
    await untilCounted(trial, async (first, count) => {
      await onePass(trial, open, locksOf(trial, first, count, TTL_MS))
      return count
    })
    return null
  }
}

async function onePass(trial: Trial, open: OpenParts, locks: readonly HeldLock[]): Promise<void> {
  const pass = locks[0]?.round ?? 0
  const parts = await open(trial, pass)
  // Where there are two client libraries, one on each side, in an order that the seed decides.
  const { drivers } = parts
  const turn = Math.floor(trial.draw(`client ${pass}`) * drivers.length)
  const [ofSideA, ofSideB] = [drivers[turn], drivers[drivers.length - 1 - turn]] as [Driver, Driver]
  const a = await trial.startWorker('A')
  const b = await trial.startWorker('B')
  const ofA = a.run('askInSteps', 0, {
    ...{ ports: parts.ports.A, driver: ofSideA, locks },
    steps: [
      { op: 'before', waitMs: GRANTED_WAIT_MS },
      { op: 'minority', waitMs: REFUSED_WAIT_MS },
      { op: 'after', waitMs: GRANTED_WAIT_MS },
    ],
  } satisfies AskingInput)
  const steps = [
    { op: 'greet', waitMs: GRANTED_WAIT_MS },
    { op: 'majority', waitMs: GRANTED_WAIT_MS },
  ]
  const ofB = b.run('askInSteps', 0, {
    ...{ ports: parts.ports.B, driver: ofSideB, locks, steps },
  } satisfies AskingInput)
  const step = async (worker: TrialWorker, work: Promise<unknown>, op: string): Promise<void> => {
    worker.mark(op)
    await Promise.race([worker.until(`over:${op}`), work])
  }
  await step(b, ofB, 'greet')
  await step(a, ofA, 'before')
  await noted(trial, locks, 'cut', parts.cut)
  await step(a, ofA, 'minority')
  await step(b, ofB, 'majority')
  await noteAlone(trial, parts, locks)
  await noted(trial, locks, 'mend', parts.mend)
  await step(a, ofA, 'after')
  await Promise.all([ofA, ofB])
  await Promise.all([a.kill(), b.kill()])
  await parts.end()
}

async function noted(
  trial: Trial,
  locks: readonly HeldLock[],
  op: string,
  act: () => Promise<void>,
): Promise<void> {
  const calledAtUs = monotonicUs()
  await act()
  for (const { round } of locks) trial.note(round, op, calledAtUs, { answer: 'done' })
}
