/**
 * What stands at a place of ours, JSON:
 *
 *     {"s":<since, µs>,"b":"<base>","r":"<token of the holder that was revoked>","d":<lock delay, ms>,
 *      "h":<host>,"p":<pid>,"l":<label>,"v":<value>}
 *
 * `b`, `r`, `d`, `l` and `v` only where there is one. The base stands at each place, because it may be
 * raised while the place is held, and a token must not change. A name that rests after an early release
 * has `{"rest":true}`, and nobody holds it.
 *
 * `s` is of the clock of the client: etcd tells no time. People read it, nothing else does.
 */

import type { KeyValue } from '../../clients/etcd/messages.ts'
import type { HolderInfo, LockInfo } from '../../core/backend.ts'
import { holderOf, metadataOf } from '../../wire/value.ts'

export const REST: Buffer = Buffer.from('{"rest":true}')

export interface Stated {
  readonly sinceMs: number
  readonly base: bigint
  readonly revoked: bigint | null
  readonly lockDelayMs: number
  readonly holder: HolderInfo
}

export function placeValueOf({ sinceMs, base, revoked, lockDelayMs, holder }: Stated): Buffer {
  const parts = [`{"s":${Math.floor(sinceMs * 1000)}`]
  if (base > 0n) parts.push(`,"b":"${base}"`)
  if (revoked !== null) parts.push(`,"r":"${revoked}"`)
  parts.push(metadataOf(holder, lockDelayMs))
  return Buffer.from(parts.join(''))
}

/** A place as a question found it. Never trusted: anybody can write. */
export interface Found {
  readonly isRest: boolean
  readonly token: bigint
  /** Null: it does not say. */
  readonly holder: HolderInfo | null
  readonly sinceAtMs: number | null
  readonly lockDelayMs: number
  readonly revoked: bigint | null
  readonly base: bigint
}

export function foundAt({ value, create_revision }: KeyValue): Found {
  const text = value?.toString() ?? ''
  const { s, b, r, d, rest } = parsed(text)
  const base = bigintOf(b) ?? 0n
  return {
    isRest: rest === true,
    token: BigInt(create_revision) + base,
    holder: holderOf(text),
    sinceAtMs: typeof s === 'number' ? Math.floor(s / 1000) : null,
    lockDelayMs: typeof d === 'number' && d >= 0 ? d : 0,
    revoked: bigintOf(r),
    base,
  }
}

/** What people see of a lock of ours. Bound to a session: how long it still lives is not told. */
export function infoOf(lockName: string, found: Found, contenderCount: number | null): LockInfo {
  return {
    lockName,
    fencingToken: found.token,
    holder: found.holder,
    foreignOwner: null,
    sinceAtMs: found.sinceAtMs,
    remainingMs: null,
    contenderCount,
  }
}

export function foreignInfo(
  lockName: string,
  shown: string,
  contenderCount: number | null,
): LockInfo {
  return {
    lockName,
    fencingToken: null,
    holder: null,
    foreignOwner: shown,
    sinceAtMs: null,
    remainingMs: null,
    contenderCount,
  }
}

function bigintOf(text: unknown): bigint | null {
  return typeof text === 'string' && /^[0-9]{1,19}$/.test(text) ? BigInt(text) : null
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
