/**
 * Other people's Redis clients: the part of their shape that we call, and scripts sent through it.
 *
 * The user passes a client; none is imported here. Scripts only, because `sendCommand` has another
 * signature on each of client, pool, cluster and sentinel.
 */
import { createHash } from 'node:crypto'
import { BackendUnavailableError, InvalidArgumentError } from '../core/errors.ts'
import { started } from '../core/started.ts'
import { asClusterError, asRedisError, isNoScript } from './redis-errors.ts'
import { PrimarySearch } from './redis-primary.ts'

type Script<A extends unknown[]> = (script: string, ...rest: A) => Promise<unknown>
type IoArguments = [keyCount: number, ...keysAndArguments: (string | number)[]]
type NodeArguments = [{ keys: string[]; arguments: string[] }]

type IoClient = { eval: Script<IoArguments>; evalsha: Script<IoArguments> }
type NodeClient = { eval: Script<NodeArguments>; evalSha: Script<NodeArguments> }

/** A client of ioredis 5 or 6, or of node-redis 5 or 6; RESP 2 or 3. */
export type RedisClient = IoClient | NodeClient

export type RedisFamily = 'ioredis' | 'node-redis'

/** A Lua script and the name under which Redis caches it. */
export interface RedisScript {
  /** For messages: what was being done. */
  readonly name: string
  readonly lua: string
  /** 40 hexadecimal digits, as Redis computes them over the same text. */
  readonly sha1: string
  /** Where among its arguments the `run_id` of its server may stand; '' there has it asked. */
  readonly runIdAt?: number
}

export function defineScript(
  name: string,
  lua: string,
  facts: Pick<RedisScript, 'runIdAt'> = {},
): RedisScript {
  return { name, lua, sha1: createHash('sha1').update(lua).digest('hex'), ...facts }
}

/** Runs scripts on one client, whichever family it is of. */
export interface RedisScripts {
  readonly family: RedisFamily
  /** Whether the client sends a script to the node of a cluster in which its first key lies. */
  readonly isCluster: boolean
  /** Of a cluster one for each primary that the client knows at present, for scripts without keys. */
  primaries(): Promise<readonly RedisScripts[]>
  /**
   * EVALSHA, and EVAL once where the server does not know the script (a restart, a failover, SCRIPT
   * FLUSH): it did not run then, so nothing happens twice.
   *
   * @param read Makes the result of the reply, whose texts may be Buffers. Called in the turn in which
   *   the client gives it: each turn more is one more before the caller has its lock.
   * @param failed Makes what is thrown of the error.
   * @throws BackendUnavailableError when nothing was applied, OutcomeUnknownError when it may have
   *   been. A bug (`TypeError` and the like) is thrown as it is.
   */
  run<T>(
    script: RedisScript,
    keys: string[],
    args: string[],
    read: (reply: unknown) => T,
    failed?: (error: unknown) => unknown,
  ): Promise<T>
}

/** For replies and errors that are good as they are. */
export function unchanged<T>(value: T): T {
  return value
}

const ALLOWED =
  'a client of ioredis 5 or 6 (eval, evalsha) or of node-redis 5 or 6 (eval, evalSha), made by you'

/** @throws InvalidArgumentError when `client` is of neither family. */
export function scriptsOf(client: RedisClient): RedisScripts {
  const shape = client as Partial<Record<'eval' | 'evalsha' | 'evalSha', unknown>> | null
  if (typeof shape === 'object' && shape !== null && typeof shape.eval === 'function') {
    if (typeof shape.evalsha === 'function') return new IoScripts(client as IoClient)
    if (typeof shape.evalSha === 'function') return new NodeScripts(client as NodeClient)
  }
  throw new InvalidArgumentError('client', client, ALLOWED)
}

/** What ioredis tells of itself. */
type Told = {
  readonly status?: unknown
  readonly options?: object
  readonly isCluster?: unknown
  nodes?(role: 'master'): IoClient[]
}

class IoScripts implements RedisScripts {
  readonly family = 'ioredis'
  readonly isCluster: boolean
  readonly #client: IoClient & Told
  readonly #resends: boolean
  readonly #search: PrimarySearch

  constructor(client: IoClient & Told) {
    this.#client = client
    this.#search = new PrimarySearch(client)
    this.isCluster = client.isCluster === true
    this.#resends = resends(client.options, this.isCluster)
  }

  async primaries(): Promise<readonly RedisScripts[]> {
    if (!this.isCluster) return [this]
    return someOf(this.#client.nodes?.('master') ?? []).map((node) => new IoScripts(node))
  }

  run<T>(
    script: RedisScript,
    keys: string[],
    args: string[],
    read: (reply: unknown) => T,
    failed: (error: unknown) => unknown = unchanged,
  ): Promise<T> {
    const client = this.#client
    // Some of the client's errors say "not sent" only together with the status at the sending.
    const { status } = client
    return started(() => client.evalsha(script.sha1, keys.length, ...keys, ...args)).then(
      read,
      async (error) => {
        if (!isNoScript(error)) throw failed(this.#named(error, script, status))
        return read(await this.#runText(script, keys, args, failed))
      },
    )
  }

  async #runText(
    script: RedisScript,
    keys: string[],
    args: string[],
    failed: (error: unknown) => unknown,
  ): Promise<unknown> {
    const client = this.#client
    const { status } = client
    try {
      return await client.eval(script.lua, keys.length, ...keys, ...args)
    } catch (error) {
      throw failed(this.#named(error, script, status))
    }
  }

  #named(error: unknown, script: RedisScript, statusAtSending: unknown): unknown {
    this.#search.onError(error)
    return asRedisError(error, script.name, { statusAtSending, resends: this.#resends })
  }
}

/** Whether a request that had no answer is sent once more. */
function resends(options: unknown, isCluster: boolean): boolean {
  const { retryDelayOnFailover, clusterNodeRetryStrategy, redisOptions, ...rest } = (options ??
    {}) as Record<string, unknown>
  if (!isCluster) return rest['autoResendUnfulfilledCommands'] !== false
  // To the same node only where nodes reconnect, which they do not by default.
  if (retryDelayOnFailover !== 0) return true
  return typeof clusterNodeRetryStrategy === 'function' && resends(redisOptions, false)
}

/** A client that knows no node must not look like a cluster without locks. */
function someOf<N>(nodes: readonly N[]): readonly N[] {
  if (nodes.length > 0) return nodes
  throw new BackendUnavailableError('down', 'the client knows no node of the cluster')
}

/** What a cluster client of node-redis has besides. */
type NodeCluster = {
  readonly masters: readonly unknown[]
  nodeClient(node: unknown): Promise<NodeClient>
}

function nodeClusterOf(client: NodeClient): NodeCluster | null {
  const { masters, nodeClient } = client as Partial<NodeCluster>
  const isCluster = Array.isArray(masters) && typeof nodeClient === 'function'
  return isCluster ? (client as unknown as NodeCluster) : null
}

class NodeScripts implements RedisScripts {
  readonly family = 'node-redis'
  readonly isCluster: boolean
  readonly #client: NodeClient
  readonly #cluster: NodeCluster | null

  constructor(client: NodeClient) {
    this.#client = client
    this.#cluster = nodeClusterOf(client)
    this.isCluster = this.#cluster !== null
  }

  async primaries(): Promise<readonly RedisScripts[]> {
    const cluster = this.#cluster
    if (cluster === null) return [this]
    const clients = someOf(cluster.masters).map((node) => cluster.nodeClient(node))
    try {
      return (await Promise.all(clients)).map((client) => new NodeScripts(client))
    } catch (error) {
      throw this.#named(error, 'list')
    }
  }

  run<T>(
    script: RedisScript,
    keys: string[],
    args: string[],
    read: (reply: unknown) => T,
    failed: (error: unknown) => unknown = unchanged,
  ): Promise<T> {
    const client = this.#client
    const options = { keys, arguments: args }
    return started(() => client.evalSha(script.sha1, options)).then(read, async (error) => {
      if (!isNoScript(error)) throw failed(this.#named(error, script.name))
      let reply: unknown
      try {
        reply = await client.eval(script.lua, options)
      } catch (error) {
        throw failed(this.#named(error, script.name))
      }
      return read(reply)
    })
  }

  #named(error: unknown, what: string): unknown {
    return this.isCluster ? asClusterError(error, what) : asRedisError(error, what)
  }
}
