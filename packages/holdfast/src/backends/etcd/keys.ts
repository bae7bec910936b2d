/**
 * Where locks lie in etcd:
 *
 *     <keyPrefix><name>/<lease, hexadecimal>/<owner>   one place in the queue of a name; the first in the
 *                                                     order of creation holds it
 *     <keyPrefix><name>/<lease, hexadecimal>          the same, of a Go program (concurrency.Mutex)
 *     <keyPrefix>#hf:cancel/<owner>                   an owner that shall never be granted anything
 *     <keyPrefix>#hf:base                             decimal: what is added to every revision
 *
 * In the name `/` is written as %2F and `%` as %25: those who wait for "a" would otherwise wait for the
 * holder of "a/b" too.
 */
import { OWNER_LENGTH } from '../../core/owner.ts'

const SLASH = '/'
/** The character behind the slash: the end of all keys that begin with "name/". */
const BEHIND_SLASH = '0'
const OWN = new RegExp(`^([0-9a-f]{1,16})/([A-Za-z0-9_-]{${OWNER_LENGTH}})$`)
const FOREIGN_BYTES_MAX = 64

export type Range = Readonly<{ key: Buffer; range_end: Buffer }>

/** What a key in the range of a name is: a place of ours, or of another program. */
export type Place =
  | Readonly<{ kind: 'ours'; owner: string }>
  | Readonly<{ kind: 'foreign'; shown: string }>

export class Keys {
  readonly prefix: string
  readonly base: Buffer
  readonly #helpers: string

  constructor(prefix: string) {
    this.prefix = prefix
    this.#helpers = `${prefix}#hf:`
    this.base = Buffer.from(`${this.#helpers}base`)
  }

  /** All places of a name. */
  rangeOf(lockName: string): Range {
    const start = `${this.prefix}${encoded(lockName)}`
    return { key: Buffer.from(start + SLASH), range_end: Buffer.from(start + BEHIND_SLASH) }
  }

  placeKey(lockName: string, leaseHex: string, owner: string): Buffer {
    return Buffer.from(`${this.prefix}${encoded(lockName)}/${leaseHex}/${owner}`)
  }

  cancelKey(owner: string): Buffer {
    return Buffer.from(`${this.#helpers}cancel/${owner}`)
  }

  /** Of a key that lies in the range of that name. */
  placeOf(lockName: string, key: Buffer): Place {
    return placeOf(key.subarray(this.rangeOf(lockName).key.length).toString())
  }

  /** All keys of names that begin with `start`, by the letter. */
  listingOf(start: string): Range {
    const key = Buffer.from(`${this.prefix}${encoded(start)}`)
    return { key: key.length === 0 ? Buffer.from([0]) : key, range_end: endOfPrefix(key) }
  }

  /** The name that a key is a place of; null: it is none, or a helper key. */
  readKey(key: Buffer): { lockName: string; place: Place } | null {
    const text = key.toString()
    if (!text.startsWith(this.prefix) || text.startsWith(this.#helpers)) return null
    const [name = '', ...rest] = text.slice(this.prefix.length).split(SLASH)
    if (name === '' || rest.length === 0) return null
    return { lockName: decoded(name), place: placeOf(rest.join(SLASH)) }
  }
}

function placeOf(rest: string): Place {
  const owner = OWN.exec(rest)?.[2]
  if (owner !== undefined) return { kind: 'ours', owner }
  return { kind: 'foreign', shown: rest.slice(0, FOREIGN_BYTES_MAX) }
}

function encoded(name: string): string {
  return name.replaceAll('%', '%25').replaceAll(SLASH, '%2F')
}

function decoded(text: string): string {
  return text.replaceAll('%2F', SLASH).replaceAll('%25', '%')
}

/** Exclusive: the first key that does not begin so; etcd takes a zero byte for the end of all keys. */
function endOfPrefix(start: Buffer): Buffer {
  const end = Buffer.from(start)
  for (let index = end.length - 1; index >= 0; index--) {
    const byte = end[index] as number
    if (byte === 0xff) continue
    end[index] = byte + 1
    return end.subarray(0, index + 1)
  }
  return Buffer.from([0])
}
