/** What a partition divides: three nodes, or a Redis and its replica. */
import type { Trial } from '../../trial.ts'
import { withRedis } from '../ground/redis-client.ts'
import { cut, endNodes, mend, portsOf, type Side, startNode } from '../quorum/nodes.ts'
import { until } from '../until.ts'

export interface Parts {
  /** Where each side finds its nodes, through proxies. */
  readonly ports: Readonly<Record<Side, number[]>>
  /** Ports of the nodes themselves that B needs, each of them, to be granted what A held. */
  readonly needed: readonly number[]
  cut(): Promise<void>
  mend(): Promise<void>
  end(): Promise<void>
}

/** @param pass Tells the draws of one pass from those of another. */
export type OpenParts = (trial: Trial, pass: number) => Promise<Parts>

/** A keeps one node, any of the three; B the two others, which are a majority. */
export const threeNodes: OpenParts = async (trial, pass) => {
  const nodes = await Promise.all([startNode(trial), startNode(trial), startNode(trial)])
  const kept = Math.floor(trial.draw(`kept ${pass}`) * nodes.length)
  const beyond = nodes.filter((_, at) => at !== kept)
  return {
    ports: { A: portsOf(nodes, 'A'), B: portsOf(nodes, 'B') },
    needed: beyond.map(({ server }) => server.port),
    cut: async () => {
      for (const [at, node] of nodes.entries()) cut(node, at === kept ? 'B' : 'A')
    },
    mend: async () => {
      for (const [at, node] of nodes.entries()) mend(node, at === kept ? 'B' : 'A')
    },
    end: () => endNodes(nodes),
  }
}

/** A keeps the primary. Beyond the partition the replica is promoted, as a failover does it. */
export const primaryAndReplica: OpenParts = async (trial) => {
  // Otherwise a primary waits seconds for further replicas before it sends anything.
  const args = ['--repl-diskless-sync-delay', '0']
  const primary = await startNode(trial, { args })
  const link = await trial.startProxy(primary.server.port)
  const replica = await startNode(trial, {
    args: [...args, '--replicaof', '127.0.0.1', `${link.port}`],
  })
  await withRedis(replica.server.port, async (redis) => {
    await until('the replica follows', async () => (await redis.info()).includes('link_status:up'))
  })
  return {
    ports: { A: portsOf([primary], 'A'), B: portsOf([replica], 'B') },
    needed: [replica.server.port],
    cut: async () => {
      link.drop('toServer')
      link.drop('toClient')
      await withRedis(replica.server.port, (redis) => redis.replicaof('NO', 'ONE'))
    },
    mend: async () => {},
    end: async () => {
      await link.close()
      await endNodes([primary, replica])
    },
  }
}
