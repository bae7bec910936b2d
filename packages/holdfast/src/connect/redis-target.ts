/** What a URL and options say of a Redis: where it is, who we are there, and what locks are kept. */
import type { RedisOptions } from '../backends/redis/options.ts'
import { readRedisOptions } from '../backends/redis/options.ts'
import { WITHHELD } from '../core/error-text.ts'
import { InvalidArgumentError } from '../core/errors.ts'
import { type Given, readConnectTimeout, readTls, secretText } from './options.ts'
import {
  type Address,
  type Credentials,
  decoded,
  readAddresses,
  readCredentials,
  type UrlParts,
} from './url.ts'

/** A connection, whatever is done with it. */
export interface ConnectionTarget {
  readonly kind: 'server' | 'socket' | 'sentinel' | 'cluster'
  /** One of a server, none of a socket. */
  readonly addresses: readonly Address[]
  /** Of a socket. */
  readonly path: string
  readonly credentials: Credentials | null
  readonly db: number
  /** What Sentinels call the primary and its replicas. */
  readonly groupName: string
  readonly sentinelCredentials: Credentials | null
  /** Of `tls.connect`; null: no TLS. */
  readonly tls: Readonly<Record<string, unknown>> | null
  /** Of several, of which the others go on without it. */
  readonly isNode: boolean
  /** For messages; without secrets. */
  readonly place: string
}

export interface RedisTarget extends ConnectionTarget {
  readonly connectTimeoutMs: number
  /** Of `redisBackend`. */
  readonly options: RedisOptions
  readonly ttlMsMax: number
}

export const REDIS_PORT = 6379
const SENTINEL_PORT = 26_379
const DB_MAX = 999_999

/** @throws InvalidArgumentError naming the part or the option that is wrong. */
export function readRedisTarget(
  kind: RedisTarget['kind'],
  isTls: boolean,
  url: UrlParts,
  given: Given,
): RedisTarget {
  const { credentials, hosts } = readAuthority(url, given)
  const where = readPlace(kind, hosts, url.path, given)
  const options = backendOptions(given)
  return {
    ...where,
    kind,
    credentials,
    sentinelCredentials: pair(given, 'sentinelUsername', 'sentinelPassword'),
    tls: readTls(given, isTls),
    isNode: false,
    connectTimeoutMs: readConnectTimeout(given),
    options,
    ttlMsMax: readRedisOptions(options, kind === 'cluster').ttlMsMax,
  }
}

/** Who we are, of the options before the URL, and the text of the hosts. */
export function readAuthority(
  { scheme, authority, path }: UrlParts,
  given: Given,
): Readonly<{ credentials: Credentials | null; hosts: string }> {
  if (path.includes('@')) {
    const allowed = 'the password percent-encoded: / is %2F, ? is %3F, # is %23, @ is %40'
    throw new InvalidArgumentError('url', WITHHELD, allowed)
  }
  if (authority === null) throw new InvalidArgumentError('url', `${scheme}:`, 'followed by //')
  const { credentials: inUrl, rest: hosts } = readCredentials(authority)
  return { credentials: pair(given, 'username', 'password') ?? inUrl, hosts }
}

type Place = Pick<RedisTarget, 'addresses' | 'path' | 'db' | 'groupName' | 'place'>

function readPlace(kind: RedisTarget['kind'], hosts: string, path: string, given: Given): Place {
  if (kind === 'socket') {
    const plain = decoded('url path', path)
    if (hosts !== '') throw new InvalidArgumentError('url host', hosts, 'none, before a path')
    if (plain.length < 2) throw new InvalidArgumentError('url path', plain, 'an absolute path')
    const db = readDb(given['db'] === undefined ? '' : String(given['db']))
    return { addresses: [], path: plain, db, groupName: '', place: `Redis at ${plain}` }
  }
  const addresses = readAddresses(hosts, kind === 'sentinel' ? SENTINEL_PORT : REDIS_PORT)
  const listed = addresses.map(asText).join(',')
  const parts = path.split('/').slice(1)
  if (kind === 'server') {
    if (addresses.length > 1) {
      const allowed = 'one host; several belong to redis+sentinel: or redis+cluster:'
      throw new InvalidArgumentError('url host', listed, allowed)
    }
    if (parts.length > 1)
      throw new InvalidArgumentError('url path', path, '/ and a database number')
    const db = readDb(parts[0] ?? '')
    return { addresses, path: '', db, groupName: '', place: `Redis at ${listed}` }
  }
  if (kind === 'cluster') {
    if (path !== '' && path !== '/' && path !== '/0') {
      throw new InvalidArgumentError('url path', path, 'none: a cluster has the database 0 alone')
    }
    return { addresses, path: '', db: 0, groupName: '', place: `the Redis Cluster at ${listed}` }
  }
  const [group = '', db = '', ...more] = parts
  const groupName = decoded('url path', group)
  if (groupName === '' || more.length > 0) {
    const allowed =
      '/ and the name that the Sentinels give the primary, then / and a database number'
    throw new InvalidArgumentError('url path', path, allowed)
  }
  const place = `the primary "${groupName}" of the Sentinels at ${listed}`
  return { addresses, path: '', db: readDb(db), groupName, place }
}

export function readDb(text: string): number {
  const db = text === '' ? 0 : Number(text)
  if ((text === '' || /^\d{1,6}$/.test(text)) && db <= DB_MAX) return db
  throw new InvalidArgumentError('url database', text, `a number from 0 to ${DB_MAX}`)
}

export function asText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function pair(given: Given, user: string, word: string): Credentials | null {
  const username = secretText(given, user)
  const password = secretText(given, word)
  if (password !== undefined) return { username, password }
  if (username === undefined) return null
  throw new InvalidArgumentError(word, undefined, `text, beside ${user}`)
}

function backendOptions(given: Given): RedisOptions {
  const { keyPrefix, sourceId, onEmpty, ttlMsMax, replicas } = given as RedisOptions
  return { keyPrefix, sourceId, onEmpty, ttlMsMax, replicas }
}

/** Everything of it that must be in no message, as it is and as a URL has it. */
export function secretsOf({ credentials, sentinelCredentials, tls }: ConnectionTarget): string[] {
  const words = [credentials?.password, sentinelCredentials?.password, tls?.['passphrase']]
  return words.flatMap((word) => (typeof word === 'string' ? [word, encodeURIComponent(word)] : []))
}
