/** What a partition divides: three nodes, a Redis and its replica, or the members of an etcd. */
import type { Server } from '../../servers/index.ts'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import { withRedis } from '../ground/redis-client.ts'
import type { Driver } from '../quorum/locks.ts'
import { cut, endNodes, mend, nodeOf, portsOf, type Side, startNode } from '../quorum/nodes.ts'
import { until } from '../until.ts'
import { CLIENTS } from '../watchdog/clients.ts'
import type { HeldLock } from '../watchdog/holder.ts'
import { EtcdNetwork } from './etcd-network.ts'
import { lookAtEtcd, lookAtRedis, wordOfMember } from './look.ts'
import { type Watch, watchEntries } from './watch.ts'

export interface Parts {
  /** Where each side finds its nodes, through proxies. */
  readonly ports: Readonly<Record<Side, number[]>>
  /** A process on each side for each of them. */
  readonly drivers: readonly Driver[]
  /** Looks at the entries on every node that B needs, each of them, to be granted what A held. */
  watch(locks: readonly HeldLock[]): Promise<readonly Watch[]>
  /** What the node on A's side says of itself while it is cut off, where it can say anything of the others. */
  alone?(): Promise<string>
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
    drivers: CLIENTS,
    watch: (locks) => watchNodes(trial, portsOfServers(beyond), locks),
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
    drivers: CLIENTS,
    watch: (locks) => watchNodes(trial, portsOfServers([replica]), locks),
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

/** A keeps the leader of that moment, alone; B its two followers, which are a majority. */
export const leaderAndFollowers: OpenParts = async (trial) => {
  const network = await EtcdNetwork.start(trial)
  const members = await Promise.all(network.members.map((member) => nodeOf(trial, member)))
  let kept: (typeof members)[number] | undefined
  return {
    ports: { A: portsOf(members, 'A'), B: portsOf(members, 'B') },
    // The locks of one process share a session of etcd: two of them are two sessions.
    drivers: ['etcd', 'etcd'],
    watch: async (locks) => [
      await watchEntries(trial, lookAtEtcd(portsOfServers(members)), 'etcd', locks),
    ],
    cut: async () => {
      const leader = await network.leader()
      kept = members.find(({ server }) => server === leader)
      network.isolate(leader)
      for (const member of members) cut(member, member === kept ? 'B' : 'A')
    },
    alone: async () => (kept === undefined ? 'nobody' : wordOfMember(kept.server.port)),
    mend: async () => {
      network.mend()
      for (const member of members) mend(member, member === kept ? 'B' : 'A')
    },
    end: async () => {
      await endNodes(members)
      await network.stop()
    },
  }
}

/** When the other side has been granted what it asked for, and before the partition is over. */
export async function noteAlone(
  trial: Trial,
  { alone }: Parts,
  locks: readonly HeldLock[],
): Promise<void> {
  if (alone === undefined) return
  const calledAtUs = monotonicUs()
  const answer = await alone()
  for (const { round } of locks) trial.note(round, 'alone', calledAtUs, { answer })
}

function portsOfServers(nodes: readonly { readonly server: Server }[]): number[] {
  return nodes.map(({ server }) => server.port)
}

function watchNodes(
  trial: Trial,
  ports: readonly number[],
  locks: readonly HeldLock[],
): Promise<readonly Watch[]> {
  return Promise.all(
    ports.map(async (port) => {
      return watchEntries(trial, await lookAtRedis(port), `port ${port}`, locks)
    }),
  )
}
