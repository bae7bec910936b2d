/**
 * What the store shows of an election, and when to look again.
 *
 * Guarantees:
 * S1. A look comes at least every third of the TTL, or 2 s: no push is relied on.
 * S2. Looks without a change are at least 10 ms apart, and further apart the more hints come without
 *     a cause. Where nobody leads, hints say nothing, so looks come after 10 ms and then ever more seldom.
 * S3. All waiting ends when the caller's signal aborts, whatever the store does.
 *
 * A term's age is never compared with a clock of ours: whether a leader is still there is the store's
 * word alone. Judging by the time that a leader wrote, or by the own TTL, deposes a leader whose clock or
 * TTL is another.
 */
import type { LockInfo } from '../../core/backend.ts'
import { ClosedError } from '../../core/errors.ts'
import type { Locks } from '../../core/lease.ts'
import type { Seams } from '../../core/seams.ts'
import { started } from '../../core/started.ts'
import { onAbort } from '../../lock/aborts.ts'
import { isFinal } from '../../lock/request.ts'
import type { Leadership } from './contract.ts'

const LOOK_MS_MIN = 10
/** As often as a contender polls, or half as often: who leads changes more seldom than locks do. */
const LOOK_MS_MAX = 2000
const LOOK_TTL_SHARE = 1 / 3

/** What one look showed; `null`: the store gave no answer. */
type Look = Readonly<{ leadership: Leadership | null }> | null

export function leadershipOf(info: LockInfo | null): Leadership | null {
  if (info === null || info.fencingToken === null) return null
  const { fencingToken, holder, sinceAtMs } = info
  return { fencingToken, value: holder?.value ?? '', holder, sinceAtMs }
}

export class Sight {
  readonly #locks: Locks
  readonly #seams: Seams
  readonly #lockName: string
  readonly #everyMs: number
  /** By the last look; before the first, perhaps. */
  #isLed = true

  constructor(locks: Locks, seams: Seams, lockName: string, ttlMs: number) {
    this.#locks = locks
    this.#seams = seams
    this.#lockName = lockName
    this.#everyMs = Math.floor(Math.min(ttlMs * LOOK_TTL_SHARE, LOOK_MS_MAX))
  }

  async look(): Promise<Leadership | null> {
    return leadershipOf(await this.#locks.inspect(this.#lockName))
  }

  /**
   * Looks until what is there is news.
   *
   * @returns Null when `signal` aborted, or time was over at `untilMs`.
   * @throws what waiting cannot mend.
   */
  async news(
    isNews: (seen: Leadership | null) => boolean,
    signal: AbortSignal,
    untilMs: number = Number.POSITIVE_INFINITY,
  ): Promise<Look> {
    let gapMs = LOOK_MS_MIN
    while (!signal.aborted) {
      const lookedAtMs = this.#seams.nowMs()
      if (lookedAtMs >= untilMs) return null
      // Before the look: what changes during it must wake us up.
      const hint = this.#hint()
      const look = await raced(this.#tryLook(), signal)
      this.#isLed = look !== null && look.leadership !== null
      if (look && isNews(look.leadership)) {
        hint.end()
        return look
      }
      const delayMs = this.#isLed ? this.#everyMs : Math.min(gapMs, this.#everyMs)
      const wasHinted = await this.#rest(hint, signal, {
        // Hints while nobody leads say that the name is free, which is known.
        fromMs: lookedAtMs + (this.#isLed ? gapMs : delayMs),
        untilMs: Math.min(lookedAtMs + delayMs, untilMs),
      })
      gapMs = this.#isLed && !wasHinted ? LOOK_MS_MIN : Math.min(2 * gapMs, this.#everyMs)
    }
    return null
  }

  async #tryLook(): Promise<Look> {
    try {
      return { leadership: await this.look() }
    } catch (error) {
      if (error instanceof ClosedError || isFinal(error)) throw error
      return null
    }
  }

  #hint(): Hint {
    const { backend } = this.#locks
    const { wakeUp } = backend
    return new Hint((signal) =>
      wakeUp && this.#isLed ? started(() => wakeUp.call(backend, this.#lockName, signal)) : null,
    )
  }

  /** Until a hint, but not before `fromMs`; until `untilMs` at the latest. @returns Whether it was a hint. */
  #rest(
    hint: Hint,
    signal: AbortSignal,
    { fromMs, untilMs }: { fromMs: number; untilMs: number },
  ): Promise<boolean> {
    const seams = this.#seams
    return new Promise((resolve) => {
      let unlisten = (): void => undefined
      let cancel = (): void => undefined
      const end = (wasHinted: boolean): void => {
        cancel()
        unlisten()
        hint.end()
        resolve(wasHinted)
      }
      const endAt = (atMs: number, wasHinted: boolean): void => {
        cancel()
        cancel = seams.after(Math.min(atMs, untilMs) - seams.nowMs(), () => end(wasHinted), true)
      }
      endAt(untilMs, false)
      unlisten = onAbort(signal, () => end(false))
      if (!signal.aborted) hint.onCame(() => endAt(fromMs, true))
    })
  }
}

/** One sleep at the store, if it has any. */
class Hint {
  readonly #controller = new AbortController()
  #came = false
  #tell: (() => void) | null = null

  constructor(sleep: (signal: AbortSignal) => Promise<void> | null) {
    sleep(this.#controller.signal)?.then(
      () => {
        this.#came = true
        this.#tell?.()
      },
      // A store that cannot wake us up: the next look comes all the same.
      () => undefined,
    )
  }

  onCame(tell: () => void): void {
    if (this.#came) tell()
    else this.#tell = tell
  }

  end(): void {
    this.#tell = null
    this.#controller.abort()
  }
}

/** The same, but null as soon as `signal` aborts. */
function raced<T>(promise: Promise<T>, signal: AbortSignal): Promise<T | null> {
  return new Promise((resolve, reject) => {
    const unlisten = onAbort(signal, () => resolve(null))
    promise.finally(unlisten).then(resolve, reject)
  })
}
