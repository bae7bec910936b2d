/**
 * A private Redis Cluster: three primaries with a replica each, on 127.0.0.1.
 *
 * It is put together by commands, because `redis-cli --cluster create` would be one more program to
 * look for. It is ready when every node sees all slots served, and every replica has synchronised:
 * a primary that is killed before that takes its slots along [seen: no write within 11 s].
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { findFreePort } from './ports.ts'
import { type RedisServer, startRedisServer } from './redis.ts'

export interface RedisCluster {
  /** Primaries 0, 1 and 2 have a third of the slots each, in order; node n + 3 replicates node n. */
  readonly nodes: readonly RedisServer[]
  /** Ends all nodes and removes their folders. Calling twice is safe. */
  stop(): Promise<void>
}

export interface RedisClusterOptions {
  /** Further arguments of each redis-server. */
  readonly args?: readonly string[]
  /**
   * How long a primary may be silent, once the cluster stands, before its replica takes its place:
   * 60,000 milliseconds by default, or a busy machine would be a failure of a node.
   */
  readonly nodeTimeoutMs?: number
}

const PRIMARIES = 3
const SLOTS = 16_384
/** Nodes talk to each other on the port that is this much higher. */
const BUS_PORT_DISTANCE = 10_000
/** Nodes that meet tell each other of the rest at this pace. */
const FORMING_TIMEOUT_MS = 2_000
const NODE_TIMEOUT_MS_DEFAULT = 60_000
const READY_MS_MAX = 60_000
const READY_POLL_MS = 50

/** @throws {MissingServerError} before anything is started. */
export async function startCluster(options: RedisClusterOptions = {}): Promise<RedisCluster> {
  const args = ['--cluster-enabled', 'yes', '--cluster-node-timeout', `${FORMING_TIMEOUT_MS}`]
  // By default a replica's first synchronisation waits five seconds for more replicas.
  // And an end waits for no replica.
  args.push('--repl-diskless-sync-delay', '0', '--shutdown-timeout', '0', ...(options.args ?? []))
  const starts = Array.from({ length: 2 * PRIMARIES }, () =>
    startRedisServer({ args }, () => findFreePort(BUS_PORT_DISTANCE)),
  )
  const outcomes = await Promise.allSettled(starts)
  const nodes = outcomes.flatMap((outcome) =>
    outcome.status === 'fulfilled' ? [outcome.value] : [],
  )
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.stop()))
  }
  try {
    for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
    await join(nodes, options.nodeTimeoutMs ?? NODE_TIMEOUT_MS_DEFAULT)
    return { nodes, stop }
  } catch (error) {
    await stop()
    throw error
  }
}

async function join(nodes: readonly RedisServer[], nodeTimeoutMs: number): Promise<void> {
  const connections = nodes.map(({ port }) => new Redis(port, '127.0.0.1'))
  for (const connection of connections) connection.on('error', () => undefined)
  try {
    await formCluster(
      connections,
      nodes.map(({ port }) => port),
    )
    for (const node of connections) await node.config('SET', 'cluster-node-timeout', nodeTimeoutMs)
  } finally {
    for (const connection of connections) connection.disconnect()
  }
}

async function formCluster(nodes: readonly Redis[], ports: readonly number[]): Promise<void> {
  const giveUpAtMs = performance.now() + READY_MS_MAX
  const ids = await Promise.all(nodes.map(async (node) => String(await node.cluster('MYID'))))
  for (const [index, node] of nodes.entries()) {
    // Two nodes with one epoch settle it between them, which takes time.
    await node.call('CLUSTER', 'SET-CONFIG-EPOCH', index + 1)
    if (index < PRIMARIES) await node.cluster('ADDSLOTSRANGE', ...slotsOf(index))
    if (index > 0) await node.cluster('MEET', '127.0.0.1', ports[0] ?? 0)
  }
  await until(giveUpAtMs, 'know each other', () => all(nodes, (node) => knows(node, ids)))
  for (const [index, node] of nodes.slice(PRIMARIES).entries()) {
    await node.call('CLUSTER', 'REPLICATE', ids[index] ?? '')
  }
  await until(giveUpAtMs, 'serve all slots, each with a replica', () => all(nodes, isReady))
}

function slotsOf(primary: number): [first: number, last: number] {
  const edge = (index: number): number => Math.round((index * SLOTS) / PRIMARIES)
  return [edge(primary), edge(primary + 1) - 1]
}

async function knows(node: Redis, ids: readonly string[]): Promise<boolean> {
  const known = String(await node.cluster('NODES'))
  // In a handshake a node is known by a random id at first.
  return !known.includes('handshake') && ids.every((id) => known.includes(id))
}

async function isReady(node: Redis): Promise<boolean> {
  const state = String(await node.cluster('INFO'))
  if (!state.includes('cluster_state:ok')) return false
  if (!state.includes(`cluster_slots_ok:${SLOTS}`)) return false
  const roles = String(await node.cluster('NODES'))
  if (roles.split('\n').filter((line) => line.includes('slave')).length !== PRIMARIES) return false
  const replication = await node.info('replication')
  return replication.includes('master_link_status:up') || replication.includes('connected_slaves:1')
}

async function all(
  nodes: readonly Redis[],
  isSo: (node: Redis) => Promise<boolean>,
): Promise<boolean> {
  return (await Promise.all(nodes.map(isSo))).every(Boolean)
}

async function until(
  giveUpAtMs: number,
  what: string,
  isSo: () => Promise<boolean>,
): Promise<void> {
  while (!(await isSo())) {
    if (performance.now() > giveUpAtMs) {
      throw new Error(`the nodes of the Redis Cluster do not ${what} after ${READY_MS_MAX} ms`)
    }
    await sleep(READY_POLL_MS)
  }
}
