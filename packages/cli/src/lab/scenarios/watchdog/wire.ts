/**
 * What passes between a holder and its store, as the proxy sees it: the lab's own account of when a
 * lock was renewed.
 *
 * A request is noted before it is handed on, so the store cannot have seen it earlier: the TTL that
 * it starts ends no earlier than that moment plus the TTL. One lock has a connection of its own and
 * asks one thing at a time; the connection is the lock's from the first request that names it, and
 * what names it and is answered well, while it is held, has acquired or renewed it.
 */
import type { FaultProxy } from 'holdfast/testkit'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import type { HeldLock } from './holder.ts'

/** First bytes of RESP: a request is an array, an error begins with a minus. */
const ARRAY = '*'
const ERROR = '-'

export function noteRequests(trial: Trial, proxy: FaultProxy, locks: readonly HeldLock[]): void {
  const roundOf = new Map<number, number>()
  proxy.onBytes = (direction, bytes, { id }) => {
    const atUs = monotonicUs()
    const first = String.fromCharCode(bytes[0] ?? 0)
    if (direction === 'toClient') {
      const round = roundOf.get(id)
      if (round === undefined) return
      trial.note(round, 'reply', atUs, { answer: first === ERROR ? 'error' : 'ok' })
      return
    }
    // A long request may come in pieces; only its begin counts.
    if (first !== ARRAY) return
    const named = roundNamedIn(bytes, locks)
    const round = roundOf.get(id) ?? named
    if (round === null) return
    roundOf.set(id, round)
    // The client and Holdfast ask for other things as well, which renew nothing.
    trial.note(round, 'request', atUs, { answer: named === null ? 'about-nothing' : 'about-lock' })
  }
}

function roundNamedIn(bytes: Uint8Array, locks: readonly HeldLock[]): number | null {
  const text = Buffer.from(bytes).toString('latin1')
  return locks.find(({ name }) => text.includes(name))?.round ?? null
}
