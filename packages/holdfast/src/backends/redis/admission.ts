/**
 * A Redis that came back empty, or as another server, grants nothing until every lease that it may
 * have forgotten is over: the option `onEmpty: 'wait'`.
 *
 * Guarantee: while all programs of a key prefix use the option with one `ttlMsMax`, no name is granted
 * within one such time after the data were lost by a restart, a flush or a failover to a server that
 * is told of as the primary.
 *
 * Does not guarantee: anything about a key that is lost alone (eviction, DEL), about an old primary that
 * goes on granting beside the new one, or about data that go back in time under one and the same
 * process, as by two failovers to and fro.
 *
 * M1. The script compares the run_id of the server with the marker's in the step that grants.
 * M2. Whoever lets the server grant again has itself waited since it first read that very marker:
 *     nobody goes by the word of another, who may have waited for an earlier loss.
 *
 * `renew`, `handOver` and `revoke` need no gate: they change an entry only if it is there.
 */
import { type RedisScript, type RedisScripts, unchanged } from '../../clients/redis.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import { markerKey } from '../../wire/keys.ts'
import type { RedisSettings } from './options.ts'
import { ACQUIRE } from './scripts/acquire.ts'
import { ADMIT, GATED_ACQUIRE } from './scripts/gate.ts'

/** Clocks may differ in rate by 1 %, and answers are read late. */
const DRIFT_SHARE = 0.01
const MARGIN_MS = 100

/** The scripts of a backend, as its option `onEmpty` wants them. */
export function gated(
  scripts: RedisScripts,
  { onEmpty, keyPrefix, ttlMsMax }: RedisSettings,
  seams: () => Seams,
): RedisScripts {
  if (onEmpty === 'fresh') return scripts
  return new GatedScripts(scripts, markerKey(keyPrefix), ttlMsMax, seams)
}

class GatedScripts implements RedisScripts {
  readonly family: RedisScripts['family']
  readonly isCluster = false
  readonly #scripts: RedisScripts
  readonly #marker: string
  readonly #ttlMsMax: number
  readonly #seams: () => Seams
  /** The marker that we wait for, since we read it. */
  #noted = { inc: '', readAtMs: Number.POSITIVE_INFINITY }

  /** @param ttlMsMax No entry of anybody lives longer, in milliseconds. */
  constructor(scripts: RedisScripts, marker: string, ttlMsMax: number, seams: () => Seams) {
    this.family = scripts.family
    this.#scripts = scripts
    this.#marker = marker
    this.#ttlMsMax = ttlMsMax
    this.#seams = seams
  }

  async primaries(): Promise<readonly RedisScripts[]> {
    return [this]
  }

  run<T>(
    script: RedisScript,
    keys: string[],
    args: string[],
    read: (reply: unknown) => T,
    failed: (error: unknown) => unknown = unchanged,
  ): Promise<T> {
    if (script !== ACQUIRE) return this.#scripts.run(script, keys, args, read, failed)
    return this.#acquireAdmitted(keys, args).then(read, (error) => {
      throw failed(error)
    })
  }

  async #acquireAdmitted(keys: string[], args: string[]): Promise<unknown> {
    const first = await this.#acquire(keys, args)
    const waiting = waitingOf(first)
    if (waiting === null) return first
    await this.#admit(waiting)
    const second = await this.#acquire(keys, args)
    // Lost once more in between: whoever asks next begins to wait.
    if (waitingOf(second) !== null) throw notYet(this.#ttlMsMax)
    return second
  }

  #acquire(keys: string[], args: string[]): Promise<unknown> {
    const gateArgs = [this.#seams().nonce(), String(this.#ttlMsMax)]
    return this.#scripts.run(
      GATED_ACQUIRE,
      [...keys, this.#marker],
      [...args, ...gateArgs],
      unchanged,
    )
  }

  /** M2. @throws BackendUnavailableError until the wait is over. */
  async #admit({ inc, longestMs }: Waiting): Promise<void> {
    const nowMs = this.#seams().nowMs()
    if (this.#noted.inc !== inc) this.#noted = { inc, readAtMs: nowMs }
    const waitMs = longestMs * (1 + DRIFT_SHARE) + MARGIN_MS
    const restMs = this.#noted.readAtMs + waitMs - nowMs
    if (restMs > 0) throw notYet(restMs)
    const admitted = await this.#scripts.run(
      ADMIT,
      [this.#marker],
      [inc, String(longestMs)],
      Number,
    )
    if (admitted !== 1) throw notYet(waitMs)
  }
}

type Waiting = Readonly<{ inc: string; longestMs: number }>

function waitingOf(reply: unknown): Waiting | null {
  if (!Array.isArray(reply) || String(reply[0]) !== 'waiting') return null
  return { inc: String(reply[1]), longestMs: Number(reply[2]) }
}

function notYet(restMs: number): BackendUnavailableError {
  return new BackendUnavailableError(
    'no-quorum',
    'Redis came back empty, or as another server, and leases of before may be in use: ' +
      `nothing is granted for another ${Math.ceil(restMs)} ms`,
  )
}
