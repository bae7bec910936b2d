/** Options of `connect`: their types, and what must hold of each before anything is opened. */
import { createSecureContext } from 'node:tls'
import type { EtcdOptions } from '../backends/etcd/options.ts'
import type { RedisOptions } from '../backends/redis/options.ts'
import type { RedlockOptions } from '../backends/redlock/options.ts'
import type { SqliteOptions } from '../backends/sqlite/options.ts'
import { CERTIFICATES_ALLOWED, holdsCertificate } from '../clients/authorities.ts'
import type { Options } from '../core/backend.ts'
import { WITHHELD } from '../core/error-text.ts'
import { InvalidArgumentError } from '../core/errors.ts'
import type { LocksOptions } from '../core/lease.ts'
import { integer, LOCKS_OPTION_NAMES } from '../core/options.ts'
import type { DriverName } from './drivers.ts'

/** What a certificate is checked against, as Node's own `tls.connect` names it. */
export type TlsOptions = Options<{
  /** Whom to trust: PEM. By default whom Node trusts, `NODE_EXTRA_CA_CERTS` included. */
  ca: string | Uint8Array | readonly (string | Uint8Array)[]
  /** The client's own certificate: PEM. */
  cert: string | Uint8Array
  /** The key to it: PEM. */
  key: string | Uint8Array
  /** Opens the key. */
  passphrase: string
  /** The name that the server's certificate must have, if it is not the host of the URL. */
  servername: string
  /** True. With false anybody can pose as the server, and is told the password. */
  rejectUnauthorized: boolean
}>

/** Those of `createLocks` besides; a query parameter of the URL gives way to an option. */
export type ConnectOptions = LocksOptions &
  Options<{
    /**
     * The package that talks to the store. By default, of those that are installed: `ioredis` before
     * `redis`, because it also follows a primary that was demoted; `better-sqlite3` before
     * `node:sqlite`, because that is not marked as stable in every supported version of Node.
     */
    driver: DriverName
    /**
     * How long to try for the first connection to Redis or etcd: 5,000 milliseconds by default, 100 to 300,000.
     * After it a lost connection is made again for as long as the locks are open. A file is tried for 2 s.
     */
    connectTimeoutMs: number
    /** Gives up connecting; has no effect once connected. */
    signal: AbortSignal
    /** Redis, etcd: the user, instead of the one in the URL. Needs `password`. */
    username: string
    /** Redis, etcd: the password, instead of the one in the URL. */
    password: string
    /** Sentinel: the user at the Sentinels themselves, if they ask for one. Needs `sentinelPassword`. */
    sentinelUsername: string
    /** Sentinel: the password at the Sentinels themselves. */
    sentinelPassword: string
    /** For the schemes that begin with `rediss`, `redlock+tls` and `etcd+tls`; etcd takes `ca`, `cert`, `key`. */
    tls: TlsOptions
    /** What follows where there are no data: see `RedisOptions` and, for `redlock:`, `RedlockOptions`. */
    onEmpty: RedisOptions['onEmpty'] | RedlockOptions['onEmpty']
  }> &
  Pick<RedisOptions, 'keyPrefix' | 'sourceId' | 'ttlMsMax' | 'replicas'> &
  Pick<RedlockOptions, 'maxTtlMs' | 'nodeTimeoutMs'> &
  Pick<EtcdOptions, 'leaseMode'> &
  SqliteOptions

const CONNECT_MS_DEFAULT = 5000
const CONNECT_MS_MIN = 100
const CONNECT_MS_MAX = 300_000

/** With every scheme, also where they change nothing: a program may get its URL from outside. */
const COMMON_OPTIONS: readonly string[] = ['connectTimeoutMs', 'signal']
const COMMON_PARAMETERS: readonly string[] = ['connectTimeoutMs']

/** Options of one call with those of the URL below them, their names checked. */
export type Given = Readonly<Record<string, unknown>>

/** What an option is for, where it is none of this scheme's. */
export interface Names {
  readonly scheme: string
  readonly options: readonly string[]
  readonly parameters: readonly string[]
}

/**
 * @returns The options for `connect` itself, and those for `createLocks`.
 * @throws InvalidArgumentError naming the first unknown one. Its value may be a secret under a wrong
 *   name, so it is not shown.
 */
export function readNames(
  options: unknown,
  query: ReadonlyMap<string, string>,
  { scheme, ...own }: Names,
): { given: Given; defaults: LocksOptions } {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    const shown = typeof options === 'string' ? WITHHELD : options
    throw new InvalidArgumentError('options', shown, 'an object with options')
  }
  const names = [...COMMON_OPTIONS, ...own.options]
  const parameters = [...COMMON_PARAMETERS, ...own.parameters]
  for (const name of query.keys()) {
    if (parameters.includes(name)) continue
    throw new InvalidArgumentError('url query', name, listed('parameters', scheme, parameters))
  }
  const given: Record<string, unknown> = Object.fromEntries(query)
  const defaults: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(options)) {
    if (value === undefined) continue
    if (names.includes(name)) given[name] = value
    else if (LOCKS_OPTION_NAMES.includes(name)) defaults[name] = value
    else {
      const allowed = listed('options', scheme, [...names, ...LOCKS_OPTION_NAMES])
      throw new InvalidArgumentError(name, WITHHELD, allowed)
    }
  }
  return { given, defaults }
}

function listed(what: string, scheme: string, names: readonly string[]): string {
  return `none of that name; the ${what} of ${scheme}: are ${names.join(', ')}`
}

export function readConnectTimeout({ connectTimeoutMs = CONNECT_MS_DEFAULT }: Given): number {
  const value = asNumber(connectTimeoutMs)
  return integer('connectTimeoutMs', value, CONNECT_MS_MIN, CONNECT_MS_MAX, ' milliseconds')
}

/** In a URL, numbers are text. Whatever else it is, it is for others to judge. */
export function asNumber(value: unknown): unknown {
  return typeof value === 'string' && /^\d{1,9}$/.test(value) ? Number(value) : value
}

/** Text that may be a secret: the error does not repeat it. */
export function secretText(given: Given, option: string): string | undefined {
  const value = given[option]
  if (value === undefined) return undefined
  if (typeof value !== 'string' || value === '' || value.length > 4096 || !value.isWellFormed()) {
    throw new InvalidArgumentError(option, WITHHELD, 'well-formed text of 1 to 4096 characters')
  }
  return value
}

const TLS_KINDS: Readonly<Record<keyof TlsOptions, (value: unknown) => boolean>> = {
  ca: (value) => isPem(value) || (Array.isArray(value) && value.length > 0 && value.every(isPem)),
  cert: isPem,
  key: isPem,
  passphrase: isText,
  servername: isText,
  rejectUnauthorized: (value) => typeof value === 'boolean',
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function isPem(value: unknown): boolean {
  return isText(value) || value instanceof Uint8Array
}

/** @returns What `tls.connect` takes besides host and port; null: no TLS. */
export function readTls(given: Given, isTls: boolean): Record<string, unknown> | null {
  const { tls } = given
  if (tls === undefined) return isTls ? {} : null
  if (!isTls) {
    throw new InvalidArgumentError(
      'tls',
      WITHHELD,
      'none here; schemes with "rediss", redlock+tls: and etcd+tls: speak TLS',
    )
  }
  if (typeof tls !== 'object' || tls === null || Array.isArray(tls)) {
    throw new InvalidArgumentError('tls', WITHHELD, 'an object with options')
  }
  const read: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(tls)) {
    const isKind = Object.hasOwn(TLS_KINDS, name) ? TLS_KINDS[name as keyof TlsOptions] : undefined
    if (value === undefined) continue
    if (isKind === undefined) {
      const allowed = `none of that name; the options are ${Object.keys(TLS_KINDS).join(', ')}`
      throw new InvalidArgumentError(`tls.${name}`, WITHHELD, allowed)
    }
    if (!isKind(value)) {
      const allowed =
        name === 'rejectUnauthorized' ? 'true or false' : 'text, or for certificates PEM as bytes'
      throw new InvalidArgumentError(`tls.${name}`, WITHHELD, allowed)
    }
    read[name] = value
  }
  checkAuthorities(read['ca'])
  checkReadable(read)
  return read
}

function checkAuthorities(ca: unknown): void {
  const all = (ca === undefined ? [] : Array.isArray(ca) ? ca : [ca]) as (string | Uint8Array)[]
  if (all.every(holdsCertificate)) return
  throw new InvalidArgumentError('tls.ca', WITHHELD, CERTIFICATES_ALLOWED)
}

/** Before a connection fails by it again and again. OpenSSL tells no more than a code without secrets. */
function checkReadable(tls: Readonly<Record<string, unknown>>): void {
  try {
    createSecureContext(tls)
  } catch (error) {
    const { code } = error as { code?: unknown }
    const allowed = `certificates and a key in PEM that belong together, unlike these: ${String(code)}`
    throw new InvalidArgumentError('tls', WITHHELD, allowed)
  }
}
