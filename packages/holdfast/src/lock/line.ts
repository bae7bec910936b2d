/** The contenders of one lock name in order, and when their head asks next. See wait.ts. */
import type { Entry } from './agenda.ts'
import type { Attempt, Refusal } from './attempt.ts'
import { Chain } from './chain.ts'
import type { Contender } from './contender.ts'
import type { Context } from './context.ts'
import { Progress } from './progress.ts'

export class Line extends Chain<Contender> {
  readonly lockName: string
  readonly #context: Context
  /** The head's attempt in flight. */
  attempt: Attempt | null = null
  /** Taken out for a hand-over whose answer is not known yet. */
  taken: Contender | null = null
  /** When the head asks next, and when it last asked, on the monotonic clock. */
  dueMs = 0
  askedAtMs = 0
  /** The last answer; at most one of the two is set. */
  refusal: Refusal | null = null
  failure: unknown = null
  /** How many attempts failed since the last answer. */
  failures = 0
  readonly progress: Progress = new Progress()
  /** The open wake-up. */
  hint: AbortController | null = null
  hintPausedUntilMs = 0
  /** A store with a queue may keep a place for this line. */
  mayHavePlace = false
  /** A reason to ask again came while the head's attempt was in flight: its answer may be older. */
  missedWake = false
  #wake: (() => void) | null = null

  constructor(context: Context, lockName: string) {
    super()
    this.#context = context
    this.lockName = lockName
  }

  override append(contender: Contender): void {
    contender.handOversBefore = this.progress.handOvers
    super.append(contender)
  }

  /** The head asks at `dueMs`, whatever was planned. */
  askAt(dueMs: number): void {
    this.dueMs = dueMs
    this.#wake?.()
  }

  /** The head asks at `dueMs` or sooner. */
  askBy(dueMs: number): void {
    if (this.attempt !== null) this.missedWake = true
    else if (dueMs < this.dueMs) this.askAt(dueMs)
  }

  wakeIfEmpty(): void {
    if (this.first === null) this.#wake?.()
  }

  /** Calls `goOn` after `waitMs`, or when the plan changed; never from inside of what changed it. */
  park(waitMs: number, goOn: () => void): void {
    const { waiting, seams } = this.#context
    let timer: Entry | null = null
    this.#wake = () => {
      this.#wake = null
      if (timer) waiting.cancel(timer)
      queueMicrotask(goOn)
    }
    if (waitMs === Number.POSITIVE_INFINITY) return
    timer = waiting.add(seams.nowMs() + waitMs, this.#wake)
  }

  /** Nobody listens for a hint any more. */
  deafen(): void {
    const { hint } = this
    this.hint = null
    hint?.abort()
  }
}
