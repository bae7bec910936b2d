/**
 * What happens to locks, as typed events.
 *
 * A listener is an observer: one that throws, or whose promise rejects, is reported as a process
 * warning (code `HOLDFAST_LISTENER`) and changes nothing.
 */
import { inspect } from 'node:util'
import type { LockError, LossReason } from './errors.ts'

type Of<T = unknown> = Readonly<{ lockName: string; fencingToken: bigint } & T>

/** Something an operator should know; locks go on working. */
export type Warning = Readonly<{
  code:
    | 'client-option'
    | 'eviction-policy'
    | 'writable-replica'
    | 'token-regression'
    /** Of a candidate, told once for each campaign: an option beside the leader's. */
    | 'election-settings'
    /** Of a connection that `connect` opened: what the driver says, once an outage and reason. */
    | 'connection'
  /** What to do about it, one sentence. */
  advice: string
  /** For the first three and `election-settings`: the setting and its value. */
  option?: string
  value?: unknown
  lockName?: string
  /** For `token-regression`: the largest token that the guard has seen. */
  highest?: bigint
}>

/** Milliseconds throughout. Exactly one of `lost` and `released` ends the story of a lease. */
export interface LockEvents {
  /** One attempt found another holder. It does not mean that the caller gave up. */
  refused: Readonly<{ lockName: string; waitedMs: number }>
  acquired: Of<{ waitedMs: number }>
  renewed: Of
  /** Not a loss: the lease goes on until its deadline; see `lost`. */
  'renewal-failed': Of<{ error: LockError }>
  lost: Of<{ heldMs: number; reason: LossReason }>
  released: Of<{ heldMs: number }>
  /** The store did not confirm the release; the entry ends with its TTL. */
  'release-failed': Of<{ error: LockError }>
  /** An attempt of unknown outcome was undone in the store. */
  cancelled: Readonly<{ lockName: string }>
  warning: Warning
}

/** Settings are warned of once each; more than this says nothing new. */
const WARNINGS_KEPT_MAX = 20

type Listener<K extends keyof LockEvents> = (event: LockEvents[K]) => void
type Listeners = { [K in keyof LockEvents]: Set<Listener<K>> }

const TYPES: readonly (keyof LockEvents)[] = [
  'refused',
  'acquired',
  'renewed',
  'renewal-failed',
  'lost',
  'released',
  'release-failed',
  'cancelled',
  'warning',
]

export class Emitter {
  readonly #listeners: Listeners = {
    refused: new Set(),
    acquired: new Set(),
    renewed: new Set(),
    'renewal-failed': new Set(),
    lost: new Set(),
    released: new Set(),
    'release-failed': new Set(),
    cancelled: new Set(),
    warning: new Set(),
  }

  static readonly types: readonly (keyof LockEvents)[] = TYPES

  /** What was warned of so far, for listeners that come later. */
  readonly #warnings: Warning[] = []

  /**
   * Returns the function that ends this subscription; each call to `on` is its own. A listener of
   * warnings hears soon what was warned of before it came.
   */
  on<K extends keyof LockEvents>(type: K, listener: Listener<K>): () => void {
    const own: Listener<K> = (event) => listener(event)
    const listeners = this.#listeners[type]
    listeners.add(own)
    if (type === 'warning') {
      const missed = [...this.#warnings] as LockEvents[K][]
      queueMicrotask(() => {
        for (const warning of missed) if (listeners.has(own)) deliver(type, own, warning)
      })
    }
    return () => {
      listeners.delete(own)
    }
  }

  emit<K extends keyof LockEvents>(type: K, event: LockEvents[K]): void {
    if (type === 'warning') this.#keep(event as Warning)
    const listeners = this.#listeners[type]
    if (listeners.size === 0) return
    // A copy: a listener that subscribes from inside itself would be called without end.
    for (const listener of [...listeners]) deliver(type, listener, event)
  }

  /** A connection that was lost last night would be news to nobody, and leave no room for others. */
  #keep(warning: Warning): void {
    if (warning.code === 'connection' || this.#warnings.length >= WARNINGS_KEPT_MAX) return
    this.#warnings.push(warning)
  }
}

function deliver<K extends keyof LockEvents>(
  type: K,
  listener: Listener<K>,
  event: LockEvents[K],
): void {
  try {
    const result: unknown = listener(event)
    // An async listener is still an observer: its rejection must not end the process.
    if (result instanceof Promise) result.catch((error) => report(type, error))
  } catch (error) {
    report(type, error)
  }
}

function report(type: string, error: unknown): void {
  const detail = error instanceof Error ? (error.stack ?? error.message) : inspect(error)
  process.emitWarning(`a listener of the event "${type}" threw`, {
    code: 'HOLDFAST_LISTENER',
    detail,
  })
}
