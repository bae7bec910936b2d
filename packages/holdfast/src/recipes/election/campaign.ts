/**
 * One candidate: waits for its turn, leads, and is a candidate again.
 *
 *     waiting ──granted──▶ leading ──body ended──▶ pausing ──another leads, or time is over──▶ waiting
 *        └───────────────────┴──signal, break, error──┴──▶ over
 *
 * Guarantees:
 * C1. The term before has been given back before this candidate stands again, so one process never does
 *     a leader's work twice at a time.
 * C2. A grant that nobody takes is given back: one that comes with an abort, or after the loop has ended.
 * C3. Whoever has led lets others come first where the store keeps no queue: it stands again when it has
 *     seen another leader, or after min(ttl, 1 s) and a little. After a loss it does so everywhere: a
 *     store that fails again and again must not make terms without end.
 *     In any case it rests for 10 ms: two whose bodies end at once would otherwise hand the leadership to
 *     each other as fast as the store answers, and on a store in memory no timer would ever run again.
 * C4. The store's failures end no campaign, except those that waiting cannot mend.
 */
import type { Lease } from '../../core/lease.ts'
import type { Settings } from '../../core/options.ts'
import type { Seams } from '../../core/seams.ts'
import { onAbort } from '../../lock/aborts.ts'
import type { Term } from './contract.ts'
import type { Doubts } from './doubts.ts'
import type { Round } from './rounds.ts'
import type { Sight } from './sight.ts'
import { type Candidacy, HeldTerm } from './term.ts'

/** A candidate that hears of no release asks again within this, spread by a quarter. */
const PAUSE_MS_MAX = 1000
const PAUSE_SPREAD_SHARE = 0.25
/** At most a hundred terms a second for each candidate. */
const PAUSE_MS_MIN = 10

export class Campaign implements Round<Term> {
  readonly #electionName: string
  readonly #settings: Settings
  readonly #candidacy: Candidacy
  readonly #sight: Sight
  readonly #doubts: Doubts
  #term: HeldTerm | null = null

  constructor(
    electionName: string,
    settings: Settings,
    candidacy: Candidacy,
    sight: Sight,
    doubts: Doubts,
  ) {
    this.#electionName = electionName
    this.#settings = settings
    this.#candidacy = candidacy
    this.#sight = sight
    this.#doubts = doubts
  }

  async next(ended: AbortSignal): Promise<{ readonly value: Term } | null> {
    const last = this.#term
    // C1.
    await this.end()
    const stop = new AbortController()
    const unlisten = [ended, this.#candidacy.signal].map(
      (signal) => signal && onAbort(signal, () => stop.abort(signal.reason)),
    )
    try {
      if (last !== null) await this.#pause(last, stop.signal)
      return await this.#stand(stop.signal)
    } finally {
      for (const end of unlisten) end?.()
    }
  }

  async end(): Promise<void> {
    await this.#term?.[Symbol.asyncDispose]()
  }

  /** C3. */
  async #pause(last: HeldTerm, signal: AbortSignal): Promise<void> {
    const { locks, seams } = this.#candidacy
    const pauseMs = Math.min(this.#settings.ttlMs, PAUSE_MS_MAX)
    const untilMs = seams.nowMs() + pauseMs * (1 + PAUSE_SPREAD_SHARE * seams.jitter())
    await passed(seams, PAUSE_MS_MIN, signal)
    if (!last.wasLost && locks.capabilities.order === 'queue') return
    const { fencingToken } = last
    await this.#sight.news(
      (seen) => seen !== null && seen.fencingToken !== fencingToken,
      signal,
      untilMs,
    )
  }

  async #stand(signal: AbortSignal): Promise<{ readonly value: Term } | null> {
    const { locks } = this.#candidacy
    if (signal.aborted) return null
    let lease: Lease
    const unlisten = this.#doubts.listen(this.#term?.fencingToken ?? null)
    try {
      const waiting = { ...this.#settings, waitMs: Number.POSITIVE_INFINITY, signal }
      lease = await locks.acquire(this.#electionName, waiting)
    } catch (error) {
      if (signal.aborted) return null
      throw error
    } finally {
      unlisten()
    }
    if (signal.aborted) {
      // C2.
      await lease[Symbol.asyncDispose]()
      return null
    }
    this.#term = new HeldTerm(lease, this.#candidacy)
    return { value: this.#term }
  }
}

/** Time, or the abort if that is sooner. */
function passed(seams: Seams, ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const unlisten = onAbort(signal, () => {
      cancel()
      resolve()
    })
    const cancel = seams.after(
      ms,
      () => {
        unlisten()
        resolve()
      },
      true,
    )
  })
}
