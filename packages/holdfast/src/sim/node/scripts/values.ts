/** The parts of a lock's value, cut by bytes: `hf1:<owner 22>:<token 19>:<JSON>`. */
import { type Bytes, sha1 } from '../bytes.ts'

const MARK_BYTES = 27
const TOKEN_BYTES = 19
const VALUE_BYTES_MAX = 2048
const HEAD_BYTES = 64
/** No character of UTF-8 has more bytes after its first. */
const FOLLOWING_BYTES_MAX = 4

export const RESTING_OWNER: Bytes = '-'.repeat(22)

export function markOf(owner: Bytes): Bytes {
  return `hf1:${owner}:`
}

export function isOf(mark: Bytes, value: Bytes | null): value is Bytes {
  return value !== null && value.slice(0, MARK_BYTES) === mark
}

/** Whether Holdfast wrote it, by its looks. */
export function isOurs(value: Bytes): boolean {
  return value.startsWith('hf1:')
}

/** Of a value whose mark is right. */
export function tokenIn(value: Bytes): Bytes {
  return value.slice(MARK_BYTES, MARK_BYTES + TOKEN_BYTES)
}

/** Of a value whose mark is right: the JSON. */
export function metadataIn(value: Bytes): Bytes {
  return value.slice(MARK_BYTES + TOKEN_BYTES + 1, VALUE_BYTES_MAX)
}

/** @param rest The JSON behind the time of the grant. */
export function grantValue(owner: Bytes, token: Bytes, nowUs: Bytes, rest: Bytes): Bytes {
  return `${markOf(owner)}${token.padStart(TOKEN_BYTES, '0')}:{"s":${nowUs}${rest}`
}

/** The same grant, held by nobody, and without its JSON. */
export function restingValue(value: Bytes): Bytes {
  const rest = value.slice(MARK_BYTES, MARK_BYTES + TOKEN_BYTES + 1)
  return `${markOf(RESTING_OWNER)}${rest}{}`
}

/** What an operator's script can tell of any value. */
export type Seen = Readonly<{ owner: Bytes; token: Bytes; lockDelayMs: Bytes }>

export function seenIn(value: Bytes): Seen | null {
  const [, owner, token] = /^hf1:([A-Za-z0-9_-]+):([0-9]+):\{/.exec(value) ?? []
  if (owner === undefined || token === undefined) return null
  const [, lockDelayMs = '0'] =
    /,"d":([0-9]+)/.exec(value.slice(MARK_BYTES + TOKEN_BYTES + 1)) ?? []
  return { owner, token, lockDelayMs }
}

/** The token of the holder from whom an operator took it, if that is how it was granted. */
export function revokedTokenIn(value: Bytes): Bytes | null {
  const pattern = /^hf1:[A-Za-z0-9_-]+:[0-9]+:\{"s":[0-9]+,"r":"([0-9]+)"/
  return pattern.exec(value)?.[1] ?? null
}

const JSON_AT = MARK_BYTES + TOKEN_BYTES + 1

/** Whether a repair put it there, and no attempt. */
export function isRepaired(value: Bytes): boolean {
  return /^\{"s":[0-9]+,"f":1,/.test(value.slice(JSON_AT))
}

/** Where the last members begin that a proclaimed value replaces; at least the closing brace. */
export function endOfMetadata(value: Bytes, ...members: readonly Bytes[]): number {
  const places = members.map((name) => value.indexOf(`,"${name}":`, JSON_AT))
  return places.find((at) => at >= 0) ?? value.length - 1
}

export type Description = readonly [kind: 'lock' | 'rest' | 'foreign', first: Bytes, second: Bytes]

/** What people may see of a value. */
export function describe(value: Bytes): Description {
  const [, owner = '', token = '', json = ''] =
    /^hf1:([A-Za-z0-9_-]{22}):([0-9]{19}):(\{.*)$/s.exec(value) ?? []
  if (owner === '' || value.length > VALUE_BYTES_MAX) {
    return ['foreign', headOf(value), sha1(value)]
  }
  return owner === RESTING_OWNER ? ['rest', '', ''] : ['lock', token, json]
}

/** At most 64 bytes, and no character in halves. */
function headOf(value: Bytes): Bytes {
  let end = HEAD_BYTES
  const isFollowing = (at: number): boolean => (value.charCodeAt(at) & 0xc0) === 0x80
  while (end > HEAD_BYTES - FOLLOWING_BYTES_MAX && end < value.length && isFollowing(end)) end -= 1
  return value.slice(0, end)
}
