/** The answers by which a node says that it does not vote. */
import { assert } from '../../core/assert.ts'
import { BackendUnavailableError, InvalidArgumentError, type LockError } from '../../core/errors.ts'
import type { Refusal } from './admission-port.ts'

/** Null: the node votes, and this is the answer. */
export function refusalIn([kind = '', first = '', second = '']: readonly string[]): Refusal | null {
  if (kind === 'amnesia') return { kind, why: first, marker: second }
  if (kind === 'wrong-set') return { kind, marker: first }
  return kind === 'too-long' ? { kind, maxTtlMs: Number(first) } : null
}

export function causeOf(refusal: Refusal, node: string): LockError {
  if (refusal.kind === 'too-long') {
    const allowed = `lock delay and minimum hold included, at most ${refusal.maxTtlMs}, which node "${node}" has as the maxTtlMs of this key prefix`
    return new InvalidArgumentError('ttlMs', 'more', allowed)
  }
  if (refusal.kind === 'wrong-set') {
    const words = 'it belongs to another set of nodes, and nothing was written there'
    return new BackendUnavailableError('no-quorum', words)
  }
  const words = `it may have forgotten locks and does not vote yet: ${WHY.get(refusal.why)}`
  assert(WHY.has(refusal.why), `no node has forgotten by "${refusal.why}"`)
  return new BackendUnavailableError('no-quorum', words)
}

const WHY: ReadonlyMap<string, string> = new Map([
  ['empty', 'it has no data of this key prefix'],
  ['restarted', 'it was started anew, or is another server'],
  ['waiting', 'it waits until every lock that it may have forgotten is over'],
  ['no-counter', 'a counter of its tokens is missing'],
])
