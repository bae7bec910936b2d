import { CERTIFICATES_ALLOWED, holdsCertificate } from '../../clients/authorities.ts'
import type { EtcdTarget, EtcdTls } from '../../clients/etcd/target.ts'
import type { Options } from '../../core/backend.ts'
import { kindOf } from '../../core/error-text.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { shortText } from '../../core/option-values.ts'
import { checkNames } from '../../core/options.ts'

export type EtcdOptions = {
  /** `host:port` of 1 to 32 members; IPv6 addresses in brackets. The leader among them is preferred. */
  readonly endpoints: readonly string[]
} & Options<{
  /**
   * Encrypts every connection. `ca`: whom to believe, the machine's own authorities by default; `cert`
   * and `key`, both or none: who we are. PEM texts. By default nothing is encrypted.
   */
  tls: EtcdTls
  /** With `password`; by default nobody logs in. The login is repeated when etcd ends it. */
  username: string
  password: string
  /**
   * Stands before every key: 0 to 64 bytes of UTF-8, empty by default, which is what other programs'
   * locks need. It is part of a lease's `source`.
   */
  keyPrefix: string
  /**
   * `shared`, the default: one session of etcd for all locks of one TTL, so that an acquire is one
   * request, and one keep-alive serves all of them; etcd losing that session ends all of them. `own`: one
   * for each lock; an acquire is two requests, and a release is two.
   */
  leaseMode: 'shared' | 'own'
}>

export interface EtcdSettings {
  readonly target: EtcdTarget
  readonly keyPrefix: string
  readonly leaseMode: 'shared' | 'own'
}

const NAMES: readonly string[] = [
  'endpoints',
  'tls',
  'username',
  'password',
  'keyPrefix',
  'leaseMode',
]
const TLS_NAMES: readonly string[] = ['ca', 'cert', 'key']
const ENDPOINTS_MAX = 32
const ENDPOINT = /^(?:[A-Za-z0-9._-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\]):([0-9]{1,5})$/
const PORT_MAX = 65_535

/** @throws InvalidArgumentError naming the first option that is wrong. Never repeats a password. */
export function readEtcdOptions(options: EtcdOptions): EtcdSettings {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  checkNames(options, NAMES)
  const { leaseMode = 'shared', keyPrefix = '' } = options
  if (leaseMode !== 'shared' && leaseMode !== 'own') {
    throw new InvalidArgumentError('leaseMode', leaseMode, "'shared' or 'own'")
  }
  return {
    target: {
      endpoints: readEndpoints(options.endpoints),
      tls: readTls(options.tls),
      login: readLogin(options),
    },
    keyPrefix: shortText('keyPrefix', keyPrefix),
    leaseMode,
  }
}

function readEndpoints(endpoints: unknown): readonly string[] {
  const list: unknown[] = Array.isArray(endpoints) ? endpoints : []
  if (list.length < 1 || list.length > ENDPOINTS_MAX) {
    const allowed = `a list of 1 to ${ENDPOINTS_MAX} members, each "host:port"`
    throw new InvalidArgumentError('endpoints', endpoints, allowed)
  }
  for (const one of list) {
    const port = typeof one === 'string' ? Number(ENDPOINT.exec(one)?.[1] ?? 0) : 0
    if (port < 1 || port > PORT_MAX) {
      const allowed = '"host:port" without a scheme, such as "10.0.0.1:2379"'
      throw new InvalidArgumentError('endpoints', one, allowed)
    }
  }
  const distinct = [...new Set(list as string[])]
  if (distinct.length < list.length) {
    throw new InvalidArgumentError('endpoints', endpoints, 'each member once')
  }
  return distinct
}

function readTls(tls: EtcdTls | undefined): EtcdTls | null {
  if (tls === undefined) return null
  if (typeof tls !== 'object' || tls === null) {
    throw new InvalidArgumentError('tls', kindOf(tls), 'an object with ca, cert, key')
  }
  checkNames(tls, TLS_NAMES)
  for (const name of TLS_NAMES) {
    const part: unknown = tls[name as keyof EtcdTls]
    if (part !== undefined && !(part instanceof Uint8Array)) {
      throw new InvalidArgumentError(`tls.${name}`, kindOf(part), 'the bytes of a PEM text')
    }
  }
  if (tls.ca !== undefined && !holdsCertificate(tls.ca)) {
    throw new InvalidArgumentError('tls.ca', 'other bytes', CERTIFICATES_ALLOWED)
  }
  if ((tls.cert === undefined) !== (tls.key === undefined)) {
    throw new InvalidArgumentError('tls', 'one of cert and key', 'both cert and key, or none')
  }
  return tls
}

function readLogin({ username, password }: EtcdOptions): EtcdTarget['login'] {
  if (username === undefined && password === undefined) return null
  if (typeof username !== 'string' || username === '') {
    throw new InvalidArgumentError('username', kindOf(username), 'text, with a password')
  }
  if (typeof password !== 'string' || password === '') {
    throw new InvalidArgumentError('password', kindOf(password), 'text, with a user name')
  }
  return { name: username, password }
}
