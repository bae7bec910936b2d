/**
 * Acquire and release, one after another, where servers may be gone: each try ends granted, refused, or
 * without an answer in time.
 */
import type { Locker } from './contestant.ts'
import { largest } from './statistics.ts'

const LOOK_EVERY_MS = 50

export interface Tries {
  /** Acquired and released. Milliseconds of each. */
  readonly grantedMs: readonly number[]
  readonly refusedMs: readonly number[]
  /** Given up by the bench. */
  readonly unansweredMs: readonly number[]
  /** Why the first of them was refused. */
  readonly reason: string | null
  readonly elapsedMs: number
  /** Processor time of this process. Microseconds. */
  readonly clientUs: number
}

export interface Extent {
  readonly tries: number
  /** After that nobody waits for a try any more. */
  readonly answerMsMax: number
  /** Unanswered ones in a row that end it: what has hung three times hangs. */
  readonly unansweredMax: number
}

/** One chain of tries, until it is stuck. */
interface Strand {
  lockName: string
  beganAtMs: number
  isAbandoned: boolean
}

export class Trier {
  readonly #locker: Locker
  readonly #prefix: string
  /** Behind a failed try something may stand under its name. */
  #nameNumber = 0

  constructor(locker: Locker, prefix: string) {
    this.#locker = locker
    this.#prefix = prefix
  }

  /** Never rejects. */
  async run({ tries, answerMsMax, unansweredMax }: Extent): Promise<Tries> {
    const grantedMs: number[] = []
    const refusedMs: number[] = []
    const unansweredMs: number[] = []
    let reason: string | null = null
    const done = (): number => grantedMs.length + refusedMs.length + unansweredMs.length
    const follow = async (strand: Strand): Promise<void> => {
      while (!strand.isAbandoned && done() < tries) {
        strand.beganAtMs = performance.now()
        let list = grantedMs
        try {
          const release = await this.#locker.acquire(strand.lockName)
          await release()
        } catch (error) {
          list = refusedMs
          if (!strand.isAbandoned) reason ??= error instanceof Error ? error.message : String(error)
          strand.lockName = this.#nextName()
        }
        if (!strand.isAbandoned) list.push(performance.now() - strand.beganAtMs)
      }
    }
    const usedBefore = process.cpuUsage()
    const beganAtMs = performance.now()
    let inARow = 0
    while (done() < tries && inARow < unansweredMax) {
      const doneBefore = done()
      const strand = { lockName: this.#nextName(0), beganAtMs, isAbandoned: false }
      const isStuck = await untilStuck(follow(strand), strand, answerMsMax)
      if (!isStuck) break
      inARow = done() > doneBefore ? 1 : inARow + 1
      unansweredMs.push(performance.now() - strand.beganAtMs)
      this.#nextName()
    }
    const elapsedMs = performance.now() - beganAtMs
    const { user, system } = process.cpuUsage(usedBefore)
    return { grantedMs, refusedMs, unansweredMs, reason, elapsedMs, clientUs: user + system }
  }

  #nextName(step = 1): string {
    this.#nameNumber += step
    return `${this.#prefix}${this.#nameNumber}`
  }
}

/** A look from outside, so that a try costs no timer of its own. */
async function untilStuck(
  following: Promise<void>,
  strand: Strand,
  answerMsMax: number,
): Promise<boolean> {
  let cancel = (): void => undefined
  const stuck = new Promise<boolean>((resolve) => {
    let wasOverdue: number | null = null
    const timer = setInterval(() => {
      const { beganAtMs } = strand
      const isOverdue = performance.now() - beganAtMs > answerMsMax
      // Twice: timers run before sockets are read, and this process itself may have been stopped.
      if (isOverdue && wasOverdue === beganAtMs) {
        strand.isAbandoned = true
        resolve(true)
      }
      wasOverdue = isOverdue ? beganAtMs : null
    }, LOOK_EVERY_MS)
    cancel = () => clearInterval(timer)
  })
  try {
    return await Promise.race([following.then(() => false), stuck])
  } finally {
    cancel()
  }
}

/** @param parts At least one. */
export function merged(parts: readonly Tries[]): Tries {
  const all = (list: (part: Tries) => readonly number[]): number[] =>
    parts.flatMap((part) => [...list(part)])
  const sum = (figure: (part: Tries) => number): number =>
    parts.reduce((total, part) => total + figure(part), 0)
  return {
    grantedMs: all((part) => part.grantedMs),
    refusedMs: all((part) => part.refusedMs),
    unansweredMs: all((part) => part.unansweredMs),
    reason: parts.find(({ reason }) => reason !== null)?.reason ?? null,
    elapsedMs: sum((part) => part.elapsedMs),
    clientUs: sum((part) => part.clientUs),
  }
}

export function countOf({ grantedMs, refusedMs, unansweredMs }: Tries): number {
  return grantedMs.length + refusedMs.length + unansweredMs.length
}

/** Of those that were granted; where none was, of all. */
export function timesOf({ grantedMs, refusedMs, unansweredMs }: Tries): readonly number[] {
  return grantedMs.length > 0 ? grantedMs : [...refusedMs, ...unansweredMs]
}

export function longestRefusal({ refusedMs }: Tries): number | null {
  return refusedMs.length === 0 ? null : largest(refusedMs)
}
