/**
 * What stands at the key of a lock:
 *
 *     hf1:<owner 22>:<token 19 digits>:{"s":<since, µs>,"r":"<token 19 digits>","d":<lock delay, ms>,
 *                                       "h":<host>,"p":<pid>,"l":<label>,"v":<value>}
 *
 * at most 2,048 bytes; `r` (the token of the holder that was revoked), `d`, `l` and `v` only where
 * there is one, `v` always last, so that a script can replace it without reading JSON. A text with
 * so many control characters that its JSON form is more than twice as long is written in base64
 * instead, under `L` or `V`. A name that rests after an early release has `-` 22 times in the place
 * of the owner, which no owner can be, and `{}`.
 *
 * Scripts put together everything up to `s`, because they read the clock and draw the token.
 */
import type { HolderInfo, LockInfo } from '../core/backend.ts'
import { InvalidArgumentError } from '../core/errors.ts'
import { parseToken, TOKEN_DIGITS } from '../core/token.ts'

export const VALUE_BYTES_MAX = 2048
/** What a script puts before the rest: up to `s` of 16 digits, and of a revoke `r` and `d`. */
const BYTES_OF_SCRIPT =
  ownerMark('-'.repeat(22)).length +
  `${'0'.repeat(TOKEN_DIGITS)}:{"s":${'0'.repeat(16)},"r":"${'0'.repeat(TOKEN_DIGITS)}","d":86400000`
    .length
const METADATA_BYTES_MAX = VALUE_BYTES_MAX - BYTES_OF_SCRIPT
const PROCLAIMED_BYTES_MAX = 512

/** How the value of a grant begins; whoever knows it owns the lock. */
export function ownerMark(owner: string): string {
  return `hf1:${owner}:`
}

export function padToken(token: bigint): string {
  return token.toString().padStart(TOKEN_DIGITS, '0')
}

/**
 * The rest of the JSON behind `{"s":<since>`, closing brace included. Kept from one request to the
 * next, because the holder is nearly always the same.
 */
export class Metadata {
  #holder: HolderInfo | null = null
  #lockDelayMs = 0
  #text = ''

  of(holder: HolderInfo, lockDelayMs: number): string {
    const last = this.#holder
    if (
      last === null ||
      last.host !== holder.host ||
      last.pid !== holder.pid ||
      last.label !== holder.label ||
      last.value !== holder.value ||
      this.#lockDelayMs !== lockDelayMs
    ) {
      this.#text = metadataOf(holder, lockDelayMs)
      this.#holder = { ...holder }
      this.#lockDelayMs = lockDelayMs
    }
    return this.#text
  }
}

/** See {@link Metadata}. */
export function metadataOf(holder: HolderInfo, lockDelayMs: number): string {
  const delay = lockDelayMs > 0 ? `,"d":${lockDelayMs}` : ''
  const label = holder.label === undefined ? '' : member('l', holder.label)
  const value = holder.value === undefined ? '' : member('v', holder.value)
  const host = JSON.stringify(holder.host)
  const metadata = `${delay},"h":${host},"p":${holder.pid}${label}${value}}`
  if (Buffer.byteLength(metadata) > METADATA_BYTES_MAX) {
    const allowed = 'host, label and value of at most 64, 256 and 512 bytes of UTF-8'
    throw new InvalidArgumentError('holder', holder, allowed)
  }
  return metadata
}

/** The member that `proclaim` puts in the place of the last one. */
export function proclaimed(value: string): string {
  if (Buffer.byteLength(value) > PROCLAIMED_BYTES_MAX) {
    const allowed = `text of up to ${PROCLAIMED_BYTES_MAX} bytes of UTF-8`
    throw new InvalidArgumentError('value', value, allowed)
  }
  return member('v', value)
}

function member(name: 'l' | 'v', text: string): string {
  const json = JSON.stringify(text)
  const plainBytesMax = 2 * Buffer.byteLength(text) + 2
  if (Buffer.byteLength(json) <= plainBytesMax) return `,"${name}":${json}`
  return `,"${name.toUpperCase()}":"${Buffer.from(text).toString('base64')}"`
}

/** Who holds it, by the JSON of the value; null: nobody says. Never trusted: anybody can write. */
export function holderOf(metadata: string): HolderInfo | null {
  const { h, p, l, L, v, V } = parse(metadata)
  if (typeof h !== 'string' || typeof p !== 'number') return null
  const label = textOf(l, L)
  const value = textOf(v, V)
  return {
    host: h,
    pid: p,
    ...(label === undefined ? {} : { label }),
    ...(value === undefined ? {} : { value }),
  }
}

/** What people see of a lock of ours. */
export function lockInfoOf(
  lockName: string,
  remainingMs: number,
  token: string,
  metadata: string,
): LockInfo {
  const since = parse(metadata)['s']
  return {
    lockName,
    fencingToken: parseToken(token),
    holder: holderOf(metadata),
    foreignOwner: null,
    sinceAtMs: typeof since === 'number' ? Math.floor(since / 1000) : null,
    remainingMs,
    contenderCount: null,
  }
}

/** What people see of a key that another program keeps there. */
export function foreignInfoOf(lockName: string, remainingMs: number, head: string): LockInfo {
  return {
    lockName,
    fencingToken: null,
    holder: null,
    foreignOwner: head,
    sinceAtMs: null,
    remainingMs,
    contenderCount: null,
  }
}

function parse(metadata: string): Readonly<Record<string, unknown>> {
  if (metadata === '') return {}
  try {
    const parsed: unknown = JSON.parse(metadata)
    return typeof parsed === 'object' && parsed !== null ? (parsed as Record<string, unknown>) : {}
  } catch {
    // Written by another program, or cut off: there is nothing to show.
    return {}
  }
}

function textOf(json: unknown, base64: unknown): string | undefined {
  if (typeof json === 'string') return json
  return typeof base64 === 'string' ? Buffer.from(base64, 'base64').toString() : undefined
}
