/**
 * What one of three nodes, or all of them, may lose. Each is really done to a real server: nothing
 * here deletes a key by hand.
 */
import { type ClockShim, makeClockShim } from '../../servers/index.ts'
import type { Trial } from '../../trial.ts'
import { withRedis } from '../ground/redis-client.ts'
import { type Node, startNode } from '../quorum/nodes.ts'
import { until } from '../until.ts'

/** A node that something happens to. */
export interface StruckNode {
  readonly node: Node
  /** Where the server behind its proxies listens just now. */
  port(): number
  /** What is there now outlives the loss, as far as anything does. */
  keep(): Promise<void>
  /** Resolves when it has happened and the node serves again. */
  lose(): Promise<string>
  /** Ends what the node itself does not end. */
  end(): Promise<void>
}

export type QuorumLoss = (trial: Trial) => Promise<StruckNode>

const HOUR_MS = 3_600_000
const nothing = async (): Promise<void> => {}

export const emptyRestart: QuorumLoss = async (trial) => {
  const node = await startNode(trial)
  const lose = async (): Promise<string> => {
    await node.server.restart()
    return 'restarted-empty'
  }
  return { node, port: () => node.server.port, keep: nothing, lose, end: nothing }
}

export const flushAll: QuorumLoss = async (trial) => {
  const node = await startNode(trial)
  const lose = async (): Promise<string> => {
    await withRedis(node.server.port, (redis) => redis.flushall())
    return 'flushed'
  }
  return { node, port: () => node.server.port, keep: nothing, lose, end: nothing }
}

/**
 * The node's address leads to another server afterwards: a replica that had not got the last writes,
 * because its connection lost everything. One that is only frozen would still find them in its socket.
 */
export const unsyncedReplica: QuorumLoss = async (trial) => {
  // Otherwise a primary waits seconds for further replicas before it sends anything.
  const args = ['--repl-diskless-sync-delay', '0']
  const node = await startNode(trial, { args })
  const primary = node.server
  const link = await trial.startProxy(primary.port)
  const follows = ['--replicaof', '127.0.0.1', `${link.port}`]
  const replica = await trial.startRedis({ args: [...args, ...follows] })
  let port = primary.port
  return {
    node,
    port: () => port,
    keep: async () => {
      await withRedis(primary.port, (redis) => redis.set('kept', '1'))
      await until('the replica has what there is', () =>
        withRedis(replica.port, async (redis) => (await redis.get('kept')) === '1'),
      )
      link.drop('toServer')
      link.drop('toClient')
    },
    lose: async () => {
      await primary.kill()
      await withRedis(replica.port, (redis) => redis.replicaof('NO', 'ONE'))
      for (const way of [node.ways.A, node.ways.B]) way.serverPort = replica.port
      port = replica.port
      return 'promoted'
    },
    end: async () => {
      await link.close()
      await replica.stop()
    },
  }
}

/** @param hours By which the wall clock of the node jumps; its data stay. */
export const clockJump =
  (hours: number): QuorumLoss =>
  async (trial) => {
    const { node, clock } = await nodeWithClock(trial)
    const lose = async (): Promise<string> => {
      clock.setOffset(hours * HOUR_MS)
      return 'clock-jumped'
    }
    return { node, port: () => node.server.port, keep: nothing, lose, end: nothing }
  }

/** An empty restart with the clock an hour back. */
export const emptyRestartAndClockBack: QuorumLoss = async (trial) => {
  const { node, clock } = await nodeWithClock(trial)
  const lose = async (): Promise<string> => {
    clock.setOffset(-HOUR_MS)
    await node.server.restart()
    return 'restarted-empty'
  }
  return { node, port: () => node.server.port, keep: nothing, lose, end: nothing }
}

async function nodeWithClock(trial: Trial): Promise<{ node: Node; clock: ClockShim }> {
  const clock = makeClockShim()
  // Registered before the server, so it is removed after its end.
  trial.onEnd(async () => clock.remove())
  return { node: await startNode(trial, { env: clock.env }), clock }
}
