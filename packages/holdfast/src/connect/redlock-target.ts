/** What a URL and options say of the nodes of a Redlock: where they are, and what locks are kept. */
import { type RedlockOptions, readRedlockOptions } from '../backends/redlock/options.ts'
import { InvalidArgumentError } from '../core/errors.ts'
import { asNumber, type Given, readConnectTimeout, readTls } from './options.ts'
import { asText, type ConnectionTarget, REDIS_PORT, readAuthority, readDb } from './redis-target.ts'
import { type Address, readAddresses, type UrlParts } from './url.ts'

export interface NodeTarget extends ConnectionTarget {
  /** `host:port` in lower case. */
  readonly name: string
}

export interface RedlockTarget {
  readonly nodes: readonly NodeTarget[]
  readonly connectTimeoutMs: number
  /** Of `redlockBackend`. */
  readonly options: RedlockOptions
  readonly ttlMsMax: number
}

/** As the marker of a node keeps it. */
const NAME_LENGTH_MAX = 64

/** @throws InvalidArgumentError naming the part or the option that is wrong. */
export function readRedlockTarget(isTls: boolean, url: UrlParts, given: Given): RedlockTarget {
  const { credentials, hosts } = readAuthority(url, given)
  const [, db = '', ...more] = url.path.split('/')
  if (more.length > 0) {
    throw new InvalidArgumentError('url path', url.path, '/ and a database number')
  }
  const shared = {
    ...({ kind: 'server', path: '', groupName: '', isNode: true } as const),
    ...{ credentials, sentinelCredentials: null, db: readDb(db), tls: readTls(given, isTls) },
  }
  const addresses = readAddresses(hosts, REDIS_PORT)
  const names = addresses.map(nameOf)
  const twin = names.find((name, index) => names.indexOf(name) < index)
  if (twin !== undefined) {
    throw new InvalidArgumentError('url host', twin, 'each node once: a node has one vote')
  }
  const options = backendOptions(given)
  return {
    nodes: addresses.map((address, index) => {
      const name = names[index] as string
      return { ...shared, name, addresses: [address], place: `node "${name}"` }
    }),
    connectTimeoutMs: readConnectTimeout(given),
    options,
    ttlMsMax: readRedlockOptions(options).maxTtlMs,
  }
}

/** The names are the set of nodes, which must not depend on how a program writes a host. */
function nameOf(address: Address): string {
  const name = asText(address).toLowerCase()
  if (name.length <= NAME_LENGTH_MAX) return name
  const allowed = `host:port of up to ${NAME_LENGTH_MAX} characters, which is the name of the node`
  throw new InvalidArgumentError('url host', name, allowed)
}

function backendOptions(given: Given): RedlockOptions {
  const { keyPrefix, sourceId, onEmpty } = given as RedlockOptions
  const maxTtlMs = asNumber(given['maxTtlMs']) as number | undefined
  const nodeTimeoutMs = asNumber(given['nodeTimeoutMs']) as number | undefined
  return { keyPrefix, sourceId, onEmpty, maxTtlMs, nodeTimeoutMs }
}
