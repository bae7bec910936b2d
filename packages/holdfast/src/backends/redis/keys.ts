/**
 * Which keys a lock has. The derivation is frozen: two versions of a program that compute different
 * keys would both hold "the same" lock. `test/unit/redis/keys.test.ts` has it as a table.
 *
 *     <prefix><name>                   the lock: a plain key, as other programs would name it
 *     <prefix>#hf:token:{00} to {63}   counters that tokens are drawn from; they never expire
 *     <prefix>#hf:want:<name>          somebody waits for the name
 *     <prefix>#hf:cancel:<owner>       this owner must not be granted anything
 *
 * All of them are sent as keys of a script, so that a prefix of the client's own (`keyPrefix` of
 * ioredis and node-redis 6) is put before each of them exactly once.
 */
import { createHash } from 'node:crypto'

/** One counter per name would grow without bound, one for all would be one hot key in a cluster. */
const STRIPES = 64
/** Composing keys takes a hash; names that are used again and again skip it. */
const REMEMBERED_MAX = 1000

export interface LockKeys {
  readonly lock: string
  readonly counter: string
  readonly want: string
}

export class RedisKeys {
  readonly prefix: string
  /** The tombstone of an owner is this and the owner. */
  readonly cancelStart: string
  readonly #counterStart: string
  readonly #wantStart: string
  readonly #remembered = new Map<string, LockKeys>()

  constructor(prefix: string) {
    this.prefix = prefix
    this.cancelStart = `${prefix}#hf:cancel:`
    this.#counterStart = `${prefix}#hf:token:`
    this.#wantStart = `${prefix}#hf:want:`
  }

  of(lockName: string): LockKeys {
    const remembered = this.#remembered.get(lockName)
    if (remembered !== undefined) return remembered
    const keys = {
      lock: this.prefix + lockName,
      counter: `${this.#counterStart}{${stripeOf(lockName)}}`,
      want: this.#wantStart + lockName,
    }
    if (this.#remembered.size >= REMEMBERED_MAX) this.#remembered.clear()
    this.#remembered.set(lockName, keys)
    return keys
  }

  cancel(owner: string): string {
    return this.cancelStart + owner
  }
}

/** Two digits: the first byte of the SHA-1 of the name in UTF-8, modulo 64. */
function stripeOf(lockName: string): string {
  const [byte = 0] = createHash('sha1').update(lockName, 'utf8').digest()
  return String(byte % STRIPES).padStart(2, '0')
}
