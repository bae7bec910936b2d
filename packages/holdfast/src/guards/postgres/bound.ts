/**
 * How long one guarded call may take, and whether its lease is still good.
 *
 * A lease knows its own validity, and the watchdog may lengthen it while the call runs. Of a plain
 * `Fenced` nothing is known, so the call is bounded by the guard's option `timeoutMs`.
 */
import type { Fenced } from '../../core/backend.ts'
import type { Lease } from '../../core/lease.ts'
import type { Seams } from '../../core/seams.ts'
import { LIMIT_MS_MAX } from './statements.ts'

type Validity = Pick<Lease, 'remainingMs' | 'assertValid' | 'signal'>

function isLease(fenced: Fenced): fenced is Fenced & Validity {
  const { remainingMs, assertValid } = fenced as Partial<Validity>
  // `in`, not a read: a lease makes its signal when it is first asked for.
  return (
    typeof remainingMs === 'function' && typeof assertValid === 'function' && 'signal' in fenced
  )
}

export class Bound {
  readonly #lease: Validity | null
  readonly #timeoutMs: number
  readonly #untilMs: number
  readonly #seams: Seams

  constructor(fenced: Fenced, timeoutMs: number, seams: Seams) {
    this.#lease = isLease(fenced) ? fenced : null
    this.#timeoutMs = timeoutMs
    this.#untilMs = seams.nowMs() + timeoutMs
    this.#seams = seams
  }

  /** Milliseconds that this call may still wait for its turn, a connection or another run. */
  remainingMs(): number {
    return this.#lease?.remainingMs() ?? Math.max(0, this.#untilMs - this.#seams.nowMs())
  }

  /** What the server's time-outs are set to: an integer of at least 1, because 0 means none. */
  limitMs(): number {
    const limitMs = this.#lease?.remainingMs() ?? this.#timeoutMs
    return Math.min(Math.max(1, Math.floor(limitMs)), LIMIT_MS_MAX)
  }

  get signal(): AbortSignal | undefined {
    return this.#lease?.signal
  }

  /** @throws LeaseLostError when the lease is over. */
  assertValid(): void {
    this.#lease?.assertValid()
  }

  /** The loss, when the lease is over or has less than `restMs` left; otherwise null. */
  loss(restMs = 0): { readonly error: unknown } | null {
    try {
      this.#lease?.assertValid(restMs)
      return null
    } catch (error) {
      return { error }
    }
  }
}
