/** Cluster clients of both families, and looks into the nodes beside them. */
import { Cluster, type Redis } from 'ioredis'
import { Cluster as Cluster5 } from 'ioredis5'
import { createCluster } from 'redis'
import { createCluster as createCluster5 } from 'redis5'
import type { RedisCluster } from '../../../cli/src/lab/servers/index.ts'
import { redisBackend } from '../../src/redis.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import { type ClientName, keysWithoutTtl, type OpenClient, openInspector, until } from './redis.ts'

export interface ClusterClientOptions {
  /** ioredis, and node-redis 6. */
  readonly keyPrefix?: string
  /** Reads go to replicas. */
  readonly readsReplicas?: boolean
  readonly username?: string
  readonly password?: string
}

const CAREFUL_CLUSTER = { retryDelayOnFailover: 0, retryDelayOnClusterDown: 0 }

/** Resolves when it is connected. Its errors are listened to. */
export async function openClusterClient(
  name: ClientName,
  { nodes }: RedisCluster,
  { keyPrefix, readsReplicas = false, ...user }: ClusterClientOptions = {},
): Promise<OpenClient> {
  const prefix = keyPrefix === undefined ? {} : { keyPrefix }
  const addresses = nodes.map(({ port }) => ({ host: '127.0.0.1', port }))
  if (name.startsWith('ioredis')) {
    const scaleReads = readsReplicas ? ('slave' as const) : ('master' as const)
    const given = { ...prefix, ...CAREFUL_CLUSTER, scaleReads, redisOptions: user }
    const client =
      name === 'ioredis 5' ? new Cluster5(addresses, given) : new Cluster(addresses, given)
    client.on('error', () => undefined)
    await until(() => client.status === 'ready', 'the client is connected')
    return { client, end: () => client.disconnect() }
  }
  const given = {
    ...prefix,
    rootNodes: addresses.map((socket) => ({ socket })),
    defaults: { disableOfflineQueue: true, ...user },
    useReplicas: readsReplicas,
  }
  const client = name === 'node-redis 5' ? createCluster5(given) : createCluster(given)
  client.on('error', () => undefined)
  await client.connect()
  return { client, end: () => (client.isOpen ? client.destroy() : undefined) }
}

/** Two backends on one cluster, each through a client of its own. */
export async function openClusterPair(
  name: ClientName,
  cluster: RedisCluster,
  options?: Parameters<typeof redisBackend>[1],
): Promise<OpenBackends> {
  const [one, other] = await Promise.all([
    openClusterClient(name, cluster),
    openClusterClient(name, cluster),
  ])
  const ours = redisBackend(one.client, options)
  const theirs = redisBackend(other.client, options)
  const withoutEnd = (): Promise<string[]> =>
    onEachPrimary(cluster, (node) => keysWithoutTtl(node)).then((keys) => keys.flat())
  const close = async (): Promise<void> => {
    await Promise.all([ours.close(), theirs.close()])
    one.end()
    other.end()
  }
  return { ours, theirs, withoutEnd, close }
}

/** What `look` says of each node that is a primary at present. */
export async function onEachPrimary<T>(
  { nodes }: Pick<RedisCluster, 'nodes'>,
  look: (node: Redis) => Promise<T>,
): Promise<T[]> {
  const found: T[] = []
  for (const { port } of nodes) {
    const node = await openInspector(port)
    try {
      const [role] = await node.role()
      if (role === 'master') found.push(await look(node))
    } finally {
      node.disconnect()
    }
  }
  return found
}

/** A slot on its way from one primary to another, as `redis-cli --cluster reshard` moves it. */
export class SlotMove {
  readonly #slot: number
  readonly #primaries: readonly Redis[]
  readonly #source: Redis
  readonly #target: Redis
  readonly #targetPort: number
  #ended = false

  private constructor(slot: number, primaries: readonly Redis[], from: number, to: number) {
    this.#slot = slot
    this.#primaries = primaries
    this.#source = primaries[from] as Redis
    this.#target = primaries[to] as Redis
    this.#targetPort = Number(this.#target.options.port)
  }

  /** From now on the source asks clients to go to the target for keys that it does not have. */
  static async begin(
    { nodes }: RedisCluster,
    slot: number,
    from: number,
    to: number,
  ): Promise<SlotMove> {
    const primaries = await Promise.all(nodes.slice(0, 3).map(({ port }) => openInspector(port)))
    const move = new SlotMove(slot, primaries, from, to)
    await move.#target.cluster('SETSLOT', slot, 'IMPORTING', await idOf(move.#source))
    await move.#source.cluster('SETSLOT', slot, 'MIGRATING', await idOf(move.#target))
    return move
  }

  async moveKeys(...keys: string[]): Promise<void> {
    await this.#source.migrate('127.0.0.1', this.#targetPort, '', 0, 30_000, 'KEYS', ...keys)
  }

  keysOfSource(): Promise<string[]> {
    return this.#source.cluster('GETKEYSINSLOT', this.#slot, 1000)
  }

  /** Moves what is left, and makes the target the one that has the slot. Calling twice is safe. */
  async end(): Promise<void> {
    if (this.#ended) return
    this.#ended = true
    const rest = await this.keysOfSource()
    if (rest.length > 0) await this.moveKeys(...rest)
    const id = await idOf(this.#target)
    // The target first: were the source first, nobody would have the slot if the target failed.
    for (const node of [this.#target, this.#source, ...this.#primaries]) {
      await node.cluster('SETSLOT', this.#slot, 'NODE', id)
    }
    for (const node of this.#primaries) node.disconnect()
  }
}

async function idOf(node: Redis): Promise<string> {
  return String(await node.cluster('MYID'))
}
