/**
 * What an error of a Redis client means for a request: applied, not applied, or nobody knows.
 *
 * "Not applied" is claimed only where the server's own words or the client's say so: the caller then
 * undoes nothing. Everything else, above all a connection that ended under way, is unknown.
 *
 * The texts are those of Redis 7.0 (src/server.c, `createSharedObjects`; src/script.c) and of ioredis
 * 5 and 6 and node-redis 5 and 6, each seen by running them. No message of ours repeats a text of
 * theirs: those contain arguments, and an owner is a secret. The original is the `cause`.
 */
import {
  BackendUnavailableError,
  LockError,
  OutcomeUnknownError,
  type UnavailableReason,
} from '../core/errors.ts'

type Meaning = readonly [why: UnavailableReason, words: string]

/** Replies by which the server refuses before it does anything. */
const REFUSALS: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  ['LOADING', ['loading', 'it is loading its data']],
  ['READONLY', ['read-only', 'no writable node was reached: it is a replica']],
  ['MISCONF', ['read-only', 'it takes no writes, because it could not save to disk']],
  ['NOREPLICAS', ['read-only', 'it takes no writes, because too few replicas are attached']],
  ['OOM', ['out-of-memory', 'it has used up its maxmemory']],
  ['NOPERM', ['no-permission', 'the user may not run this command or touch this key']],
  ['NOAUTH', ['no-permission', 'the connection has not authenticated']],
  ['WRONGPASS', ['no-permission', 'it does not accept this name and password']],
  ['BUSY', ['down', 'it is busy with a script of somebody']],
  ['MASTERDOWN', ['down', 'it is a replica that has lost its primary']],
  ['CLUSTERDOWN', ['down', 'the cluster does not serve these keys at present']],
  ['TRYAGAIN', ['down', 'the keys are on their way to another node of the cluster']],
  ['CROSSSLOT', ['down', 'it is a cluster, in which the keys of this lock lie apart']],
  ['MOVED', ['down', 'it is a node of a cluster that does not have these keys']],
  ['ASK', ['down', 'it is a node of a cluster that is handing these keys on']],
])

/** The same, under the general code ERR. */
const ERR_REFUSALS: readonly (readonly [RegExp, Meaning])[] = [
  // A script's commands are checked one by one; in ours the one that changes a lock comes last.
  [/^ERR The user executing the script can't /, ['no-permission', 'the user lacks a right']],
  [
    /^ERR unknown command/i,
    ['no-permission', 'it has no scripts: it is a Sentinel, or EVAL and EVALSHA are switched off'],
  ],
  [
    /^ERR Script attempted to execute .* while the cluster is down/,
    ['down', 'the cluster is down'],
  ],
  [/^ERR max number of clients reached/, ['down', 'it has as many connections as it takes']],
]

/** Redis before 7.0 wraps a refusal inside a script: `ERR Error running script (…): …: -OOM …`. */
const WRAPPED = /^ERR Error running script .*[:\s]-([A-Z]+) /

const NOT_CONNECTED: Meaning = ['down', 'the client is not connected']

/** Words of a client for a request that it did not send. */
const NOT_SENT: ReadonlyMap<string, Meaning> = new Map<string, Meaning>([
  ['The client is offline', NOT_CONNECTED],
  ['The client is closed', ['down', 'the client is closed, or connect() was not called']],
  ['The queue is full', ['backlog', 'the queue of the client is full']],
  [
    'Connection in subscriber mode, only subscriber commands may be used',
    ['down', 'the client is in use for subscriptions; locks need a connection of their own'],
  ],
  // A cluster client of node-redis follows refusals alone, so nothing was done before these.
  ['All the root nodes are unavailable', ['down', 'no node of the cluster answers the client']],
  ['Too many Cluster redirections', ['down', 'the nodes of the cluster pass it on in a circle']],
])

/** Words of a cluster client of ioredis for a request that it had for none of its nodes. */
const NO_NODE: ReadonlySet<string> = new Set([
  'None of startup nodes is available',
  'Cluster is ended.',
])

/** The same client gives up after so many tries, the last of which ended like this. */
const TOO_MANY_TRIES = /^Too many Cluster redirections\. Last error: ReplyError: (.*)$/s

/** V8's words for what a cluster client of node-redis does when no node has the slot of a key. */
const SLOT_WITHOUT_NODE = /^Cannot read properties of undefined \(reading 'master'\)$/

/** What ioredis knew when it was given the request; some of its words mean two things without it. */
export interface IoCircumstances {
  readonly statusAtSending: unknown
  /** Whether it sends again, after a reconnect or to another node, what had no answer. */
  readonly resends: boolean
}

const OFFLINE_QUEUE_OFF = /enableOfflineQueue options is false$/
const CLOSED = 'Connection is closed.'

/** Whether the server does not know a script: then it did not run. */
export function isNoScript(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('NOSCRIPT')
}

/** Scripts by what they do for callers, where their own names say less. */
const CALLED: ReadonlyMap<string, string> = new Map([
  ['extend', 'renew'],
  ['facts', 'the first request'],
])

/** What a script is called in messages. */
export function called(script: string): string {
  return CALLED.get(script) ?? script
}

/**
 * The error that a caller gets; a bug is given back as it is.
 *
 * @param script What was being done, for the message.
 * @param io Of ioredis only.
 */
export function asRedisError(error: unknown, script: string, io?: IoCircumstances): unknown {
  const what = called(script)
  if (error instanceof LockError || isBug(error)) return error
  const message = error instanceof Error ? error.message : ''
  const meaning = refusal(message) ?? notSent(message, io) ?? lastRefusal(message, io)
  if (meaning === null) {
    const words = /^[A-Z]{2,} /.test(message)
      ? 'failed inside Redis: it may have been applied in part'
      : 'had no answer: the connection ended or the time was over'
    return new OutcomeUnknownError(`${what} ${words}`, { cause: withoutArguments(error) })
  }
  const [why, words] = meaning
  const cause = withoutArguments(error)
  return new BackendUnavailableError(why, `Redis did not do ${what}: ${words}`, { cause })
}

/** The same for a client of a whole cluster, which may know no node to send to. */
export function asClusterError(error: unknown, what: string): unknown {
  if (!(error instanceof TypeError && SLOT_WITHOUT_NODE.test(error.message))) {
    return asRedisError(error, what)
  }
  const words = `Redis did not do ${called(what)}: the client knows no node for this slot of the cluster`
  return new BackendUnavailableError('down', words, { cause: error })
}

/** ioredis keeps the command in its error, with all arguments: the owner among them is a secret. */
function withoutArguments(error: unknown): unknown {
  if (error instanceof Error && Object.hasOwn(error, 'command')) {
    delete (error as { command?: unknown }).command
  }
  return error
}

function refusal(message: string): Meaning | null {
  const code = /^[A-Z]+/.exec(message)?.[0] ?? ''
  if (code !== 'ERR') return REFUSALS.get(code) ?? null
  const wrapped = WRAPPED.exec(message)?.[1]
  if (wrapped !== undefined) return REFUSALS.get(wrapped) ?? null
  return ERR_REFUSALS.find(([pattern]) => pattern.test(message))?.[1] ?? null
}

function notSent(message: string, io: IoCircumstances | undefined): Meaning | null {
  const meaning = NOT_SENT.get(message)
  if (meaning !== undefined || io === undefined) return meaning ?? null
  const { statusAtSending, resends } = io
  if (OFFLINE_QUEUE_OFF.test(message)) {
    // Sent while connected, and then again after a reconnect: only the second time was refused.
    return statusAtSending === 'ready' && resends ? null : NOT_CONNECTED
  }
  if (NO_NODE.has(message)) return resends ? null : NOT_CONNECTED
  // Of a client that had not ended it may also have been sent from the queue before the end.
  return message === CLOSED && statusAtSending === 'end' ? NOT_CONNECTED : null
}

/** If an earlier try may have ended without an answer, the last one's refusal says nothing of it. */
function lastRefusal(message: string, io: IoCircumstances | undefined): Meaning | null {
  const last = TOO_MANY_TRIES.exec(message)?.[1]
  return last === undefined || io?.resends !== false ? null : refusal(last)
}

/** A mistake in code, ours or the client's: never retried, never taken for a failing store. */
function isBug(error: unknown): boolean {
  return (
    error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    error instanceof SyntaxError
  )
}
