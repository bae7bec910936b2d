/**
 * What a recipe needs of locks beside their public face: the clock that they go by, how they read
 * options, and their events. Locks that were not made here, a wrapper around ours for one, have the system's clock and
 * no defaults of their own.
 */
import type { Emitter } from '../core/events.ts'
import type { Locks } from '../core/lease.ts'
import { OptionReader } from '../core/options.ts'
import { type Seams, systemSeams } from '../core/seams.ts'

export interface Inside {
  readonly seams: Seams
  readonly options: OptionReader
  /** Null: of locks that were not made here. */
  readonly emitter: Emitter | null
}

const insides = new WeakMap<object, Inside>()

export function setInside(locks: object, inside: Inside): void {
  insides.set(locks, inside)
}

export function insideOf(locks: Locks): Inside {
  const own = insides.get(locks)
  if (own) return own
  const options = new OptionReader(locks.capabilities, {})
  return { seams: systemSeams, options, emitter: null }
}
