/** What an operator should know of a node and its client, as warnings. */
import { ownConnectionOf } from '../../clients/own-connections.ts'
import type { RedisFamily } from '../../clients/redis.ts'
import { BackendUnavailableError, type LockError } from '../../core/errors.ts'
import type { Warning } from '../../core/events.ts'
import type { NodeFacts } from './census.ts'
import type { NodePort } from './node-port.ts'

/** By which option each family of clients gives up a connection on which nothing comes back. */
const TIMEOUT_OPTIONS: Readonly<Record<RedisFamily, string>> = {
  ioredis: 'socketTimeout',
  'node-redis': 'socket.socketTimeout',
}
/** By default node-redis makes no other connection in place of one that it gave up so. */
const RECONNECTS: Readonly<Record<RedisFamily, string>> = {
  ioredis: '',
  'node-redis':
    ', and a socket.reconnectStrategy, as by default it does not connect again after that',
}

/**
 * The node left a request unanswered, and only the client can end a connection that leads nowhere.
 * Null: the client is ours, and does.
 */
export function silenceWarning({ name, scripts, settings }: NodePort): Warning | null {
  if (ownConnectionOf(settings.client) !== null) return null
  const option = TIMEOUT_OPTIONS[scripts.family]
  const value = optionAt(settings.client, option.split('.'))
  const advice =
    `node "${name}" leaves requests unanswered; the others go on without it. A connection that leads ` +
    `nowhere is only given up by your client: set ${option} there, to 10000 or so${RECONNECTS[scripts.family]}`
  return value === undefined
    ? { code: 'client-option', advice, option }
    : { code: 'client-option', advice, option, value }
}

function optionAt(client: unknown, path: readonly string[]): unknown {
  let value: unknown = (client as { options?: unknown }).options
  for (const name of path) value = (value as Record<string, unknown> | undefined)?.[name]
  return value
}

export function factWarnings(name: string, facts: NodeFacts): Warning[] {
  const { policy, role } = facts
  const warnings: Warning[] = []
  if (policy !== '' && policy !== 'noeviction') {
    const option = 'maxmemory-policy'
    const advice =
      `set ${option} noeviction on node "${name}": under ${policy} it may throw out a lock that is ` +
      'held, or the counter of its tokens, and then does not vote'
    warnings.push({ code: 'eviction-policy', advice, option, value: policy })
  }
  if (role === 'slave') {
    const advice = `give node "${name}" the address of a primary of its own: it is a replica, and does not vote`
    warnings.push({ code: 'writable-replica', advice, option: `nodes.${name}`, value: role })
  }
  return warnings
}

/** Of a node that will not vote before somebody changes something: a Sentinel, or a user without rights. */
export function refusalWarning(name: string, refusal: LockError): Warning | null {
  if (!(refusal instanceof BackendUnavailableError) || refusal.why !== 'no-permission') return null
  const advice = `give node "${name}" a client that may ask it for votes; the others go on without it: ${refusal.message}`
  return { code: 'client-option', advice, option: `nodes.${name}` }
}
