import { createCluster as createCluster5 } from 'redis5'
import { describe, expect, it } from 'vitest'
import { asClusterError, asRedisError, isNoScript } from '../../../src/clients/redis-errors.ts'
import {
  BackendUnavailableError,
  type LockError,
  OutcomeUnknownError,
} from '../../../src/core/errors.ts'

/** As Redis 7.0.15 said them; test/faults/redis-server.test.ts makes it say most of them again. */
const REFUSALS: readonly (readonly [why: string, message: string])[] = [
  ['loading', 'LOADING Redis is loading the dataset in memory'],
  [
    'read-only',
    "READONLY You can't write against a read only replica. script: bd6f, on @user_script:1.",
  ],
  ['read-only', 'MISCONF Redis is configured to save RDB snapshots, but it is currently unable to'],
  ['read-only', 'NOREPLICAS Not enough good replicas to write. script: bd6f, on @user_script:1.'],
  ['out-of-memory', "OOM command not allowed when used memory > 'maxmemory'. script: bd6f"],
  ['no-permission', "NOPERM this user has no permissions to run the 'eval' command"],
  [
    'no-permission',
    'NOPERM this user has no permissions to access one of the keys used as arguments',
  ],
  [
    'no-permission',
    "ERR The user executing the script can't run this command or subcommand script: 89",
  ],
  ['no-permission', 'NOAUTH Authentication required.'],
  ['no-permission', 'WRONGPASS invalid username-password pair or user is disabled.'],
  ['no-permission', "ERR unknown command 'evalsha', with args beginning with: 'abc' '1' 'k'"],
  [
    'down',
    'BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
  ],
  ['down', "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."],
  ['down', 'CLUSTERDOWN Hash slot not served'],
  ['down', 'TRYAGAIN Multiple keys request during rehashing of slot'],
  ['down', "CROSSSLOT Keys in request don't hash to the same slot"],
  ['down', 'MOVED 866 127.0.0.1:7001'],
  [
    'down',
    'ERR Script attempted to execute a command while the cluster is down script: 1b4f, on @user_script:24.',
  ],
  ['down', 'ERR max number of clients reached'],
  // Redis 6.2 wraps what a script's command was refused with.
  [
    'out-of-memory',
    "ERR Error running script (call to f_bd6f): @user_script:1: @user_script: 1: -OOM command not allowed when used memory > 'maxmemory'.",
  ],
  [
    'read-only',
    "ERR Error running script (call to f_bd6f): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.",
  ],
]

/** As the clients say it for what they did not send. */
const NOT_SENT: readonly (readonly [why: string, message: string, status?: string])[] = [
  ['down', "Stream isn't writeable and enableOfflineQueue options is false", 'connecting'],
  ['down', "Cluster isn't ready and enableOfflineQueue options is false", 'reconnecting'],
  ['down', 'Connection is closed.', 'end'],
  ['down', 'Connection in subscriber mode, only subscriber commands may be used', 'ready'],
  ['down', 'All the root nodes are unavailable'],
  ['down', 'Too many Cluster redirections'],
  ['down', 'The client is offline'],
  ['down', 'The client is closed'],
  ['backlog', 'The queue is full'],
]

/** As they say it when it may have arrived. */
const UNKNOWN: readonly (readonly [message: string, status?: string])[] = [
  [
    'Reached the max retries per request limit (which is 0). Refer to "maxRetriesPerRequest"',
    'ready',
  ],
  [
    'Reached the max retries per request limit (which is 20). Refer to "maxRetriesPerRequest"',
    'connecting',
  ],
  ['Command timed out', 'ready'],
  ['Command aborted due to connection close', 'ready'],
  // Sent, and sent again after a reconnect: the same words as for what was never sent.
  ["Stream isn't writeable and enableOfflineQueue options is false", 'ready'],
  // Waited in the queue, was sent, and then the client was closed.
  ['Connection is closed.', 'connecting'],
  ['Connection is closed.', 'ready'],
  // A client that sends again what had no answer may have lost an answer before the last refusal.
  ['Too many Cluster redirections. Last error: ReplyError: TRYAGAIN Multiple keys', 'ready'],
  ['None of startup nodes is available', 'ready'],
  ['Cluster is ended.', 'ready'],
  ['read ECONNRESET'],
  ['write EPIPE'],
  ['Socket closed unexpectedly'],
  ['Disconnects client'],
  [''],
  ['ERR increment or decrement would overflow script: a3b5, on @user_script:1.'],
  ['ERR user_script:1: attempt to concatenate a nil value script: c1e6, on @user_script:1.'],
  ['WRONGTYPE Operation against a key holding the wrong kind of value'],
  ['UNHEARDOF of a later version'],
]

function lockErrorOf(message: string, status?: string, resends = true): LockError {
  const io = status === undefined ? undefined : { statusAtSending: status, resends }
  return asRedisError(new Error(message), 'acquire', io) as LockError
}

describe('an error of a Redis client', () => {
  // B050, B051: busy, down, full and forbidden all arrived as one vague error, and callers parsed texts.
  it.each(REFUSALS)('is unavailable, %s: %s', (why, message) => {
    const error = lockErrorOf(message)
    expect(error).toBeInstanceOf(BackendUnavailableError)
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why })
  })

  it.each(NOT_SENT)('is unavailable, %s, when it was not sent: %s', (...row) => {
    const [why, message = '', status] = row
    expect(lockErrorOf(message, status)).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why })
  })

  // B054: a time-out was taken for "the store is down", and several workers started without the lock.
  it.each(UNKNOWN)('is unknown when it may have arrived: %s', (...row) => {
    const [message = '', status] = row
    expect(lockErrorOf(message, status)).toBeInstanceOf(OutcomeUnknownError)
  })

  // The connection was closing when it was sent: a client that never sends again did not send it.
  it('is unavailable for a client that does not resend, connected or not', () => {
    const message = "Stream isn't writeable and enableOfflineQueue options is false"
    for (const status of ['ready', 'connecting', 'end']) {
      expect(lockErrorOf(message, status, false)).toMatchObject({ why: 'down' })
    }
  })

  // The keys of a slot that was on its way to another node were taken for locks that may be held.
  it('is unavailable for a cluster client that does not resend, by the last refusal', () => {
    const tries = 'Too many Cluster redirections. Last error: '
    for (const [message, why] of [
      [`${tries}ReplyError: TRYAGAIN Multiple keys request during rehashing of slot`, 'down'],
      [`${tries}ReplyError: MOVED 1925 127.0.0.1:21987`, 'down'],
      [`${tries}ReplyError: CLUSTERDOWN The cluster is down`, 'down'],
      ['None of startup nodes is available', 'down'],
      ['Cluster is ended.', 'down'],
    ] as const) {
      expect(lockErrorOf(message, 'ready', false)).toMatchObject({ why })
    }
    for (const message of [`${tries}Error: Connection is closed.`, 'Connection is closed.']) {
      expect(lockErrorOf(message, 'ready', false)).toBeInstanceOf(OutcomeUnknownError)
    }
  })

  // B052, as below: node-redis trips over a slot for which it knows no node.
  it('of a cluster client without a node for the slot is unavailable', async () => {
    const cluster = createCluster5({ rootNodes: [{}] })
    const thrown = await cluster.eval('return 1', { keys: ['k'] }).catch((error: unknown) => error)
    expect(thrown).toBeInstanceOf(TypeError)
    expect(asClusterError(thrown, 'acquire')).toMatchObject({ why: 'down', cause: thrown })
    const bug = new TypeError('x is not a function')
    expect(asClusterError(bug, 'acquire')).toBe(bug)
    expect(asClusterError(new Error('The client is offline'), 'acquire')).toMatchObject({
      why: 'down',
    })
  })

  it('is the cause of ours, and its text, which may name an owner, is not repeated', () => {
    const secret = 'AbCdEfGhIjKlMnOpQrStUg'
    const messages = [...REFUSALS, ...NOT_SENT].map(([, message]) => message)
    for (const message of [...messages, ...UNKNOWN.map(([text]) => text)]) {
      const cause = new Error(`${message} '${secret}' redis://user:${secret}@host`)
      const error = asRedisError(cause, 'acquire') as LockError
      expect(error.cause).toBe(cause)
      expect(error.message).toContain('acquire')
      expect(error.message).not.toContain(secret)
      expect(JSON.stringify(error)).not.toContain(secret)
    }
  })

  // B052: a type error of the caller's own making was reported as a lost quorum, and retried.
  it.each([new TypeError('x is not a function'), new RangeError('x'), new ReferenceError('x')])(
    'that is a bug stays what it is: %s',
    (bug) => {
      expect(asRedisError(bug, 'acquire')).toBe(bug)
    },
  )

  it('of ours stays what it is, and what is no error is unknown', () => {
    const own = new OutcomeUnknownError('own')
    expect(asRedisError(own, 'acquire')).toBe(own)
    for (const thrown of ['text', undefined, null, 7]) {
      expect(asRedisError(thrown, 'acquire')).toBeInstanceOf(OutcomeUnknownError)
    }
  })

  it('that a script is not known is recognised, and no other', () => {
    expect(isNoScript(new Error('NOSCRIPT No matching script. Please use EVAL.'))).toBe(true)
    expect(isNoScript(new Error('ERR NOSCRIPT'))).toBe(false)
    expect(isNoScript('NOSCRIPT')).toBe(false)
  })
})

// A caller who renewed was told that "Redis did not do extend".
it.each([
  ['extend', 'Redis did not do renew: '],
  ['facts', 'Redis did not do the first request: '],
  ['acquire', 'Redis did not do acquire: '],
])('what %s could not is told in the words of callers', (script, words) => {
  const error = asRedisError(new Error("READONLY You can't write"), script) as LockError
  expect(error.message.startsWith(words)).toBe(true)
})
