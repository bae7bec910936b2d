import { type RedisClient, scriptsOf } from '../../clients/redis.ts'
import { checkSubscriber, type RedisSubscriber } from '../../clients/redis-subscriber.ts'
import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { shortText, whole } from '../../core/option-values.ts'
import { checkNames, TTL_MS_MAX, TTL_MS_MIN } from '../../core/options.ts'

const KEY_PREFIX_DEFAULT = 'lock:'
const MAX_TTL_MS_DEFAULT = 120_000
const NAME_BYTES_MAX = 64
/** The marker keeps their number in two digits. */
const NODE_COUNT_MAX = 99
const NODE_TIMEOUT_MS_MIN = 10
const NODE_TIMEOUT_MS_MAX = 60_000

/** A node: a client of yours, or one with what else is to be known of it. */
export type RedlockNode =
  | RedisClient
  | {
      client: RedisClient
      /**
       * The connection by which contenders learn of a release: a client that is used for nothing
       * else, or false. By default `client.duplicate()`, opened when somebody first waits.
       */
      subscriber?: RedisSubscriber | false | undefined
      /**
       * Whether this server keeps every write before it answers (`appendfsync always`) and has no
       * replicas, so that a restart forgets nothing: it votes again at once. False by default, and
       * wrongly declared it costs exclusion after a restart.
       */
      durable?: boolean | undefined
    }

export type RedlockOptions = Options<{
  /**
   * Stands before every key on every node: `lock:` by default; 0 to 64 bytes of UTF-8. It is part of a
   * lease's `source`.
   */
  keyPrefix: string
  /**
   * Distinguishes the tokens of these nodes from those of others with the same prefix, for those who
   * move their locks: up to 64 bytes, empty by default.
   */
  sourceId: string
  /**
   * The longest TTL of any program with this key prefix, lock delay and minimum hold included, in
   * milliseconds: 100 to 86,400,000; 120,000 by default. A node that lost its data does not vote for so
   * long. Fixed when the prefix is first used.
   */
  maxTtlMs: number
  /**
   * What follows when nodes have no data. `wait`, the default: they vote once every lock that they may
   * have forgotten is over, one `maxTtlMs`; so too before the very first lock of a key prefix. `fresh`:
   * a prefix of which no node has any trace is used at once; only for nodes that are known to be new.
   * `refuse`: whoever operates them has to say so.
   */
  onEmpty: 'wait' | 'fresh' | 'refuse'
  /**
   * How long a node that does not answer is waited for where the answer of others is not enough, in
   * milliseconds: 10 to 60,000. By default a tenth of the TTL, from 50 to 500: no dead node then costs
   * more than that share of a lease.
   */
  nodeTimeoutMs: number
}>

const NAMES: readonly string[] = ['keyPrefix', 'sourceId', 'maxTtlMs', 'onEmpty', 'nodeTimeoutMs']
const NODE_NAMES: readonly string[] = ['client', 'subscriber', 'durable']

export interface RedlockSettings {
  readonly keyPrefix: string
  readonly sourceId: string
  readonly maxTtlMs: number
  readonly onEmpty: 'wait' | 'fresh' | 'refuse'
  /** Null: a share of the TTL. */
  readonly nodeTimeoutMs: number | null
}

export interface NodeSettings {
  readonly name: string
  readonly client: RedisClient
  readonly subscriber: RedisSubscriber | false | undefined
  readonly isDurable: boolean
}

/** @throws InvalidArgumentError naming the first option that is wrong. */
export function readRedlockOptions(options: RedlockOptions): RedlockSettings {
  if (!isPlain(options)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  checkNames(options, NAMES)
  const { keyPrefix = KEY_PREFIX_DEFAULT, sourceId = '', onEmpty = 'wait' } = options
  if (onEmpty !== 'wait' && onEmpty !== 'fresh' && onEmpty !== 'refuse') {
    throw new InvalidArgumentError('onEmpty', onEmpty, "'wait', 'fresh' or 'refuse'")
  }
  const { maxTtlMs = MAX_TTL_MS_DEFAULT, nodeTimeoutMs } = options
  return {
    keyPrefix: shortText('keyPrefix', keyPrefix),
    sourceId: shortText('sourceId', sourceId),
    maxTtlMs: whole('maxTtlMs', maxTtlMs, TTL_MS_MIN, TTL_MS_MAX),
    onEmpty,
    nodeTimeoutMs:
      nodeTimeoutMs === undefined
        ? null
        : whole('nodeTimeoutMs', nodeTimeoutMs, NODE_TIMEOUT_MS_MIN, NODE_TIMEOUT_MS_MAX),
  }
}

/**
 * The nodes, sorted by name: the names are the member set.
 *
 * @throws InvalidArgumentError for what is no object of nodes (a string is an object of its
 *   characters, an array one of its indices), or has a name that a marker cannot keep.
 */
export function readNodes(nodes: Readonly<Record<string, RedlockNode>>): NodeSettings[] {
  if (!isPlain(nodes)) {
    throw new InvalidArgumentError('nodes', nodes, 'an object of clients by node name')
  }
  const names = Object.keys(nodes).sort()
  if (names.length === 0 || names.length > NODE_COUNT_MAX) {
    const allowed = `1 to ${NODE_COUNT_MAX} clients by node name`
    throw new InvalidArgumentError('nodes', names.length, allowed)
  }
  const read = names.map((name) => readNode(name, nodes[name]))
  for (const [index, { client, name }] of read.entries()) {
    const twin = read.slice(0, index).find((other) => other.client === client)
    if (twin === undefined) continue
    const allowed = `another client than that of node "${twin.name}": a node votes once`
    throw new InvalidArgumentError(`nodes.${name}`, client, allowed)
  }
  return read
}

function readNode(name: string, given: unknown): NodeSettings {
  if (!isName(name)) {
    const allowed = `names of 1 to ${NAME_BYTES_MAX} bytes of UTF-8 without comma, line break or NUL`
    throw new InvalidArgumentError('nodes', name, allowed)
  }
  const option = `nodes.${name}`
  const isObject = typeof given === 'object' && given !== null
  if (!isObject) throw new InvalidArgumentError(option, given, 'a Redis client, or { client }')
  if (typeof (given as { eval?: unknown }).eval === 'function') {
    const client = checkClient(option, given)
    return { name, client, subscriber: undefined, isDurable: false }
  }
  checkNames(given, NODE_NAMES, `${option}.`)
  const { client, subscriber, durable = false } = given as Record<string, unknown>
  if (typeof durable !== 'boolean') {
    throw new InvalidArgumentError(`${option}.durable`, durable, 'true or false')
  }
  return {
    name,
    client: checkClient(`${option}.client`, client),
    subscriber: checkSubscriber(`${option}.subscriber`, subscriber),
    isDurable: durable,
  }
}

/** The same error as for a client alone, by the name that it has here. */
function checkClient(option: string, client: unknown): RedisClient {
  try {
    scriptsOf(client as RedisClient)
  } catch (error) {
    if (!(error instanceof InvalidArgumentError)) throw error
    throw new InvalidArgumentError(option, client, error.allowed)
  }
  return client as RedisClient
}

function isName(name: string): boolean {
  const bytes = Buffer.byteLength(name)
  return bytes > 0 && bytes <= NAME_BYTES_MAX && !/[,\n\r\0]/.test(name) && name.isWellFormed()
}

function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
