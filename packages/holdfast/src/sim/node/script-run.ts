/**
 * What one run of a script may do to a node: the commands that our scripts use, with their effects and
 * their errors in the words of Redis 7.0.
 *
 * Time stands while a script runs. What was written before an error stays written.
 */
import type { Bytes } from './bytes.ts'
import type { Entry, KeySpace } from './keyspace.ts'

/** What Redis answers in place of a result; its message begins with a code. */
export class ReplyError extends Error {
  static {
    ReplyError.prototype.name = 'ReplyError'
  }
}

/** The part of a node that a script sees. */
export interface ScriptWorld {
  readonly keys: KeySpace
  readonly runId: string
  /** A replica, and so it takes no writes. */
  readonly isReadOnly: boolean
  readonly isOutOfMemory: boolean
  /** Replicas that are connected. */
  readonly replicaCount: number
  readonly nowUs: number
  publish(channel: Bytes, message: Bytes): void
}

const WRONG_TYPE = 'WRONGTYPE Operation against a key holding the wrong kind of value'
const READ_ONLY = "READONLY You can't write against a read only replica."
const OUT_OF_MEMORY = "OOM command not allowed when used memory > 'maxmemory'."
const NO_INTEGER = 'ERR value is not an integer or out of range'

const INTEGER = /^(?:0|-?[1-9][0-9]*)$/
const INTEGER_MAX = 2n ** 63n - 1n
const INTEGER_MIN = -(2n ** 63n)

/** How long a key lives that is written: milliseconds, or without PX, or with KEEPTTL. */
export type Life = number | 'for ever' | 'as it was'

export class ScriptRun {
  readonly #world: ScriptWorld
  readonly #nowMs: number
  /** A script that has written once may go on to, however full the memory is. */
  #hasWritten = false

  constructor(world: ScriptWorld) {
    this.#world = world
    this.#nowMs = Math.floor(world.nowUs / 1000)
  }

  get nowUs(): number {
    return this.#world.nowUs
  }

  get runId(): string {
    return this.#world.runId
  }

  /** As INFO replication says it. */
  get role(): 'master' | 'slave' {
    return this.#world.isReadOnly ? 'slave' : 'master'
  }

  get replicaCount(): number {
    return this.#world.replicaCount
  }

  find(key: Bytes): Entry | null {
    return this.#world.keys.find(key, this.#nowMs)
  }

  /** As MGET reads: null for a key of another type as well. */
  read(key: Bytes): Bytes | null {
    const entry = this.find(key)
    return entry?.type === 'string' ? entry.value : null
  }

  /** As GET reads. @throws ReplyError for a key of another type. */
  get(key: Bytes): Bytes | null {
    const entry = this.find(key)
    if (entry !== null && entry.type !== 'string') throw new ReplyError(WRONG_TYPE)
    return entry?.value ?? null
  }

  exists(key: Bytes): boolean {
    return this.find(key) !== null
  }

  /** As TYPE says it. */
  typeOf(key: Bytes): string {
    return this.find(key)?.type ?? 'none'
  }

  /** Milliseconds; -1: it never ends; -2: it is not there. */
  pttl(key: Bytes): number {
    const entry = this.find(key)
    if (entry === null) return -2
    return entry.expiresAtMs === null ? -1 : entry.expiresAtMs - this.#nowMs
  }

  all(): [Bytes, Entry][] {
    return this.#world.keys.all(this.#nowMs)
  }

  /** Whatever stood there, of whatever type. */
  set(key: Bytes, value: Bytes, lifeMs: Life): void {
    this.#mayWrite(true)
    const before = this.find(key)
    let expiresAtMs: number | null = null
    if (lifeMs === 'as it was') expiresAtMs = before?.expiresAtMs ?? null
    else if (lifeMs !== 'for ever') expiresAtMs = this.#nowMs + lifeMs
    this.#world.keys.put(key, { type: 'string', value, expiresAtMs })
  }

  /** As SET NX. @returns Whether there was nothing. */
  setIfMissing(key: Bytes, value: Bytes, lifeMs: Life): boolean {
    this.#mayWrite(true)
    if (this.exists(key)) return false
    this.set(key, value, lifeMs)
    return true
  }

  /** As GETSET: what stood there. It never ends from now on. */
  swap(key: Bytes, value: Bytes): Bytes | null {
    this.#mayWrite(true)
    const before = this.get(key)
    this.set(key, value, 'for ever')
    return before
  }

  /** Like {@link set}, but a failure is nobody's. */
  trySet(key: Bytes, value: Bytes, lifeMs: number): void {
    try {
      this.set(key, value, lifeMs)
    } catch (error) {
      if (!(error instanceof ReplyError)) throw error
    }
  }

  /** @returns How many there were. */
  del(...keys: Bytes[]): number {
    this.#mayWrite(false)
    return keys.filter((key) => this.#world.keys.remove(key, this.#nowMs)).length
  }

  /** Nothing happens to a key that is not there. */
  expire(key: Bytes, lifeMs: number): void {
    this.#mayWrite(false)
    const entry = this.find(key)
    if (entry === null) return
    this.#world.keys.put(key, { ...entry, expiresAtMs: this.#nowMs + lifeMs })
  }

  /** Adds 1 to what stands there. */
  increment(key: Bytes): Bytes {
    this.#mayWrite(true)
    const entry = this.find(key)
    const before = this.get(key) ?? '0'
    const number = INTEGER.test(before) ? BigInt(before) : INTEGER_MAX
    if (number >= INTEGER_MAX || number < INTEGER_MIN) throw new ReplyError(NO_INTEGER)
    const value = String(number + 1n)
    this.#world.keys.put(key, { type: 'string', value, expiresAtMs: entry?.expiresAtMs ?? null })
    return value
  }

  publish(channel: Bytes): void {
    this.#world.publish(channel, '')
  }

  #mayWrite(takesMemory: boolean): void {
    if (this.#world.isReadOnly) throw new ReplyError(READ_ONLY)
    if (takesMemory && this.#world.isOutOfMemory && !this.#hasWritten) {
      throw new ReplyError(OUT_OF_MEMORY)
    }
    this.#hasWritten = true
  }
}
