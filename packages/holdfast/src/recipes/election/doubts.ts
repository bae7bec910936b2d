/**
 * Settings of a candidate and of the leader that it waits for which can hardly both be meant. They change
 * nothing, because the store alone decides who leads and for how long; people should know of them all the
 * same, as a warning.
 *
 * Locks that were not made here have no events of their own, and tell nothing.
 *
 * Costs one look at the leader for each campaign, when the campaign was refused for the first time.
 */
import type { LockInfo } from '../../core/backend.ts'
import type { Emitter } from '../../core/events.ts'
import type { Locks } from '../../core/lease.ts'
import type { Settings } from '../../core/options.ts'
import { started } from '../../core/started.ts'
import { storeTtlMs } from '../../lock/context.ts'

/** What is left of a life that began just now may be rounded up. */
const ROUNDING_MS = 10

export class Doubts {
  readonly #locks: Locks
  readonly #electionName: string
  readonly #settings: Settings
  readonly #emitter: Emitter | null
  #isDone = false

  constructor(locks: Locks, electionName: string, settings: Settings, emitter: Emitter | null) {
    this.#locks = locks
    this.#electionName = electionName
    this.#settings = settings
    this.#emitter = emitter
  }

  /** @param own The last term of this very campaign, which may stand there still. @returns What ends it. */
  listen(own: bigint | null): () => void {
    if (this.#isDone || this.#emitter === null) return () => undefined
    return this.#emitter.on('refused', ({ lockName }) => {
      if (lockName !== this.#electionName || this.#isDone) return
      this.#isDone = true
      started(() => this.#locks.inspect(lockName)).then(
        (leader) => this.#judge(leader, own),
        () => undefined,
      )
    })
  }

  #judge(leader: LockInfo | null, own: bigint | null): void {
    if (leader === null || leader.fencingToken === own) return
    const { label, value } = this.#settings
    const { holder, remainingMs } = leader
    if (label !== undefined && holder?.label === label) this.#tell('label', label, ALIKE)
    if (value && holder?.value === value) this.#tell('value', value, ALIKE)
    if (remainingMs !== null && remainingMs > storeTtlMs(this.#settings) + ROUNDING_MS) {
      this.#tell('ttlMs', this.#settings.ttlMs, LONGER)
    }
  }

  #tell(option: string, value: unknown, advice: string): void {
    const lockName = this.#electionName
    this.#emitter?.emit('warning', { code: 'election-settings', advice, option, value, lockName })
  }
}

const ALIKE =
  'the leader of this election says the same of itself: give every candidate one of its own, or nobody ' +
  'can tell them apart'
const LONGER =
  'the leader of this election has a longer TTL: give all candidates the same, or after a crash the next ' +
  'leader comes later than this one expects'
