/**
 * Which keys a lock has. The derivation is frozen: two versions of a program that compute different
 * keys would both hold "the same" lock. `test/unit/redis/keys.test.ts` has it as a table.
 *
 *     <prefix><name>                   the lock: a plain key, as other programs would name it
 *     <prefix>#hf:token:{00} to {63}   counters that tokens are drawn from; they never expire
 *     <prefix>#hf:want:<name>          somebody waits for the name
 *     <prefix>#hf:cancel:<owner>       this owner must not be granted anything
 *     <prefix>#hf:marker               whether this server may grant; with `onEmpty: 'wait'` only
 *
 * In a cluster all keys of a script must lie in one slot. There the helpers carry the tag of the slot
 * in which the lock's own key lies (slots.ts):
 *
 *     <prefix>#hf:token:{<tag>}   <prefix>#hf:want:{<tag>}<name>   <prefix>#hf:cancel:{<tag>}<owner>
 *
 * All of them are sent as keys of a script, so that a prefix of the client's own (`keyPrefix` of
 * ioredis and node-redis 6) is put before each of them exactly once. A slot depends on it, so in a
 * cluster there are no keys before the store has told what it is.
 */
import { createHash } from 'node:crypto'
import { InvalidArgumentError } from '../core/errors.ts'
import { leavesTagsAlone, slotOf, tagOf } from './slots.ts'

/** One counter per name would grow without bound, one for all would be one hot key in a cluster. */
const STRIPES = 64
/** Composing keys takes a hash; names that are used again and again skip it. */
const REMEMBERED_MAX = 1000

export interface LockKeys {
  readonly lock: string
  readonly counter: string
  readonly want: string
  /** The tombstone of an owner is this and the owner. */
  readonly cancelStart: string
}

export class RedisKeys {
  readonly prefix: string
  readonly #isCluster: boolean
  readonly #remembered = new Map<string, LockKeys>()
  #clientPrefix: string | null = null

  constructor(prefix: string, isCluster: boolean) {
    this.prefix = prefix
    this.#isCluster = isCluster
  }

  /** What the client puts before our keys; null until the store has told. */
  get clientPrefix(): string | null {
    return this.#clientPrefix
  }

  /**
   * @param sent The key of a lock as the server got it.
   * @throws InvalidArgumentError when the prefixes have braces that keep keys of a cluster apart.
   */
  learn(lockName: string, sent: string): void {
    if (this.#clientPrefix !== null) return
    const clientPrefix = sent.slice(0, sent.length - this.lock(lockName).length)
    if (this.#isCluster && !leavesTagsAlone(clientPrefix + this.prefix)) {
      const allowed = 'in a cluster, text without { or with a whole {tag}'
      throw new InvalidArgumentError('keyPrefix', clientPrefix + this.prefix, allowed)
    }
    this.#clientPrefix = clientPrefix
  }

  lock(lockName: string): string {
    return this.prefix + lockName
  }

  /** Null in a cluster while the client's prefix is unknown. */
  of(lockName: string): LockKeys | null {
    const remembered = this.#remembered.get(lockName)
    if (remembered !== undefined) return remembered
    if (this.#isCluster && this.#clientPrefix === null) return null
    const keys = this.#isCluster ? this.#taggedKeysOf(lockName) : this.#stripedKeysOf(lockName)
    if (this.#remembered.size >= REMEMBERED_MAX) this.#remembered.clear()
    this.#remembered.set(lockName, keys)
    return keys
  }

  #stripedKeysOf(lockName: string): LockKeys {
    const start = `${this.prefix}#hf:`
    return {
      lock: this.lock(lockName),
      counter: stripeKey(this.prefix, stripeOf(lockName)),
      want: `${start}want:${lockName}`,
      cancelStart: `${start}cancel:`,
    }
  }

  #taggedKeysOf(lockName: string): LockKeys {
    const lock = this.lock(lockName)
    const start = `${this.prefix}#hf:`
    const tag = `{${tagOf(slotOf(this.#clientPrefix + lock))}}`
    return {
      lock,
      counter: `${start}token:${tag}`,
      want: `${start}want:${tag}${lockName}`,
      cancelStart: `${start}cancel:${tag}`,
    }
  }
}

/** One for all names of a prefix; it never expires. */
export function markerKey(prefix: string): string {
  return `${prefix}#hf:marker`
}

/** All counters of a prefix outside of a cluster, in the order of their numbers. */
export function stripeKeys(prefix: string): string[] {
  return Array.from({ length: STRIPES }, (_, number) => stripeKey(prefix, digitsOf(number)))
}

function stripeKey(prefix: string, digits: string): string {
  return `${prefix}#hf:token:{${digits}}`
}

function digitsOf(stripe: number): string {
  return String(stripe).padStart(2, '0')
}

/** Two digits: the first byte of the SHA-1 of the name in UTF-8, modulo 64. */
function stripeOf(lockName: string): string {
  const [byte = 0] = createHash('sha1').update(lockName, 'utf8').digest()
  return digitsOf(byte % STRIPES)
}
