/**
 * Why there is no connection: the words for it, and a cause without secrets.
 *
 * Drivers put into their errors what they were doing: ioredis keeps the AUTH command with its password.
 * So no error of theirs is passed on. Words of ours stand for it, and the `cause` is a copy with the
 * text and the codes alone; a text that holds a secret is left out as a whole.
 */
import { WITHHELD } from '../core/error-text.ts'
import type { UnavailableReason } from '../core/errors.ts'

export interface Reason {
  readonly why: UnavailableReason
  /** Completes "no connection to …:". */
  readonly words: string
  /** Trying again will not help. */
  readonly isFinal: boolean
  /** False: the words are only what is always true. */
  readonly isKnown: boolean
}

/** What a server does, too, that is spoken to by TLS and has none, or the other way round. */
export const ENDED = 'the server ended the connection'

type Row = readonly [
  pattern: RegExp,
  why: UnavailableReason,
  words: string,
  kind?: 'final' | 'weak',
]

/**
 * Against the texts and codes of an error and of all below it, the first that fits. Final: trying again
 * will not help. Weak: what was said before says more.
 */
const ROWS: readonly Row[] = [
  [
    /called without any password configured|no password is set/,
    'no-permission',
    'the server has no password for this user, and one was given',
    'final',
  ],
  [
    /WRONGPASS|invalid (?:username-)?password/,
    'no-permission',
    'the server does not accept this name and password',
    'final',
  ],
  [/NOAUTH|Authentication required/, 'no-permission', 'the server asks for a password', 'final'],
  [/NOPERM/, 'no-permission', 'the user may not run a command of the driver', 'final'],
  [/DB index is out of range|invalid DB index/, 'down', 'the server has no such database', 'final'],
  [/cluster support disabled/, 'down', 'the server is not part of a cluster', 'final'],
  [
    /DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|self[- ]signed certificate/,
    'down',
    notTrusted('self-signed'),
    'final',
  ],
  [
    /UNABLE_TO_(?:VERIFY|GET)|unable to (?:verify|get)/,
    'down',
    notTrusted('of an unknown authority'),
    'final',
  ],
  [/CERT_HAS_EXPIRED|certificate has expired/, 'down', notTrusted('expired'), 'final'],
  [/ERR_TLS_CERT_ALTNAME_INVALID/, 'down', notTrusted('for another name'), 'final'],
  [
    /ERR_SSL_WRONG_VERSION_NUMBER|ERR_SSL_PACKET_LENGTH/,
    'down',
    'the server does not speak TLS there',
  ],
  // gRPC passes on the text alone.
  [
    /:wrong version number|:packet length too long/,
    'down',
    'the server does not speak TLS there',
    'final',
  ],
  [/Name resolution failed/, 'down', 'the name of a host was not found'],
  [/: Failed to connect \(/, 'down', ENDED],
  [/LOADING/, 'loading', 'the server is loading its data'],
  [/max number of clients/, 'down', 'the server has as many connections as it takes'],
  [/ENOTFOUND|EAI_AGAIN/, 'down', 'the name of a host was not found'],
  [/ENOENT/, 'down', 'there is no such socket'],
  [/EACCES/, 'no-permission', 'this process may not use the socket'],
  [/ECONNREFUSED/, 'down', 'the connection was refused'],
  [/EHOSTUNREACH|ENETUNREACH/, 'down', 'there is no way to the host'],
  [/ETIMEDOUT|Connection timeout|Socket timeout/, 'down', 'there was no answer'],
  [/ECONNRESET|EPIPE|closed unexpectedly|disconnected before secure/i, 'down', ENDED],
  [
    /invalid reply|No such master|no valid master/i,
    'down',
    'the Sentinels know no primary of that name',
  ],
  [/unknown command .sentinel/i, 'down', 'what answers there is no Sentinel', 'final'],
  [/failed to connect to sentinel|sentinels are/i, 'down', 'no Sentinel was reached', 'weak'],
  [/startup nodes|root nodes|slots cache/, 'down', 'no node of the cluster was reached', 'weak'],
  [/Connection is closed/, 'down', 'the connection ended before it was ready', 'weak'],
]

function notTrusted(what: string): string {
  return `the certificate of the server is not trusted: it is ${what}`
}

const UNKNOWN: Reason = {
  why: 'down',
  words: 'there was no answer',
  isFinal: false,
  isKnown: false,
}

export function reasonOf(error: unknown): Reason {
  const texts = everyOne(error).map(({ code, message }) => `${code ?? ''} ${message ?? ''}`)
  for (const [pattern, why, words, kind] of ROWS) {
    if (!texts.some((text) => pattern.test(text))) continue
    return { why, words, isFinal: kind === 'final', isKnown: kind !== 'weak' }
  }
  return UNKNOWN
}

type ErrorLike = Readonly<{
  name?: unknown
  message?: unknown
  code?: unknown
  cause?: unknown
  error?: unknown
  errors?: unknown
  lastNodeError?: unknown
}>

/** Errors of clients hold others; what is deeper than this says nothing new. */
const DEPTH_MAX = 5
const COUNT_MAX = 20

function everyOne(error: unknown): ErrorLike[] {
  const found: ErrorLike[] = []
  const visit = (one: unknown, depth: number): void => {
    if (typeof one === 'string') found.push({ message: one })
    if (typeof one !== 'object' || one === null) return
    if (depth > DEPTH_MAX || found.length >= COUNT_MAX || found.includes(one)) return
    found.push(one)
    const { cause, error: inner, errors, lastNodeError } = one as ErrorLike
    for (const below of [cause, inner, lastNodeError, ...(Array.isArray(errors) ? errors : [])]) {
      visit(below, depth + 1)
    }
  }
  visit(error, 0)
  return found
}

/**
 * Plain copies, the second as the cause of the first and so on; undefined where there was no error.
 *
 * @param secrets Passwords, as they are and as a URL has them.
 */
export function withoutSecrets(error: unknown, secrets: readonly string[]): Error | undefined {
  const safe = (value: unknown): string => {
    const text = typeof value === 'string' ? value : ''
    return secrets.some((secret) => secret !== '' && text.includes(secret)) ? WITHHELD : text
  }
  const copies = everyOne(error).map(({ message, code }) => ({
    message: safe(message),
    code: safe(code),
  }))
  return copies.reduceRight<Error | undefined>((cause, { message, code }) => {
    const copy = new Error(message, cause && { cause })
    return code === '' ? copy : Object.assign(copy, { code })
  }, undefined)
}
