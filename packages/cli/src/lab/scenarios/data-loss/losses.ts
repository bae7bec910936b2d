/**
 * The ways in which one Redis loses what it had. Each is really done to a real server: nothing here
 * deletes a key by hand.
 */
import type { Redis } from 'ioredis'
import type { Outcome } from '../../history.ts'
import { makeClockShim } from '../../servers/index.ts'
import type { Trial } from '../../trial.ts'
import { withRedis } from '../ground/redis-client.ts'
import { until } from '../until.ts'

/** What a round has its locks in. */
export interface Stand {
  /** Where the locks are. */
  readonly port: number
  /** What is there now outlives the loss, as far as anything does. */
  keep(): Promise<void>
  /** Resolves when the data are lost and Redis serves again, at the port that it tells. */
  lose(): Promise<Outcome & { readonly port: number }>
}

/** Makes a stand ready for the next round; the servers of a round before may be used again. */
export type Loss = (trial: Trial) => Promise<() => Promise<Stand>>

const HOUR_MS = 3_600_000

/** A server without persistence comes back empty. */
export const emptyRestart: Loss = async (trial) => {
  const server = await trial.startRedis()
  return async () => ({
    port: server.port,
    keep: async () => {},
    lose: async () => {
      await server.restart()
      return { answer: 'restarted-empty', port: server.port }
    },
  })
}

export const flushAll: Loss = async (trial) => {
  const server = await trial.startRedis()
  return async () => ({
    port: server.port,
    keep: async () => {},
    lose: async () => {
      await withRedis(server.port, (redis) => redis.flushall())
      return { answer: 'flushed', port: server.port }
    },
  })
}

/** An empty restart with the clock an hour back: the case that no token from this server covers. */
export const emptyRestartAndClockBack: Loss = async (trial) => {
  const clock = makeClockShim()
  // Registered before the server, so it is removed after its end.
  trial.onEnd(async () => clock.remove())
  const server = await trial.startRedis({ env: clock.env })
  return async () => {
    clock.setOffset(0)
    await server.restart()
    return {
      port: server.port,
      keep: async () => {},
      lose: async () => {
        clock.setOffset(-HOUR_MS)
        await server.restart()
        return { answer: 'restarted-empty', port: server.port }
      },
    }
  }
}

/**
 * A replica is promoted that had not got the last writes: its connection loses everything, then the
 * primary is killed. A replica that is only frozen would still find them in its socket.
 */
export const unsyncedReplica: Loss = async (trial) => {
  let endLast = async (): Promise<void> => {}
  return async () => {
    // Servers of a round are of no use to the next: they are ended here, not at the arm's end.
    await endLast()
    // Otherwise a primary waits seconds for further replicas before it sends anything.
    const args = ['--repl-diskless-sync-delay', '0']
    const primary = await trial.startRedis({ args })
    const proxy = await trial.startProxy(primary.port)
    const follows = ['--replicaof', '127.0.0.1', `${proxy.port}`]
    const replica = await trial.startRedis({ args: [...args, ...follows] })
    endLast = async () => {
      await proxy.close()
      await Promise.all([primary.stop(), replica.stop()])
    }
    return {
      port: primary.port,
      keep: async () => {
        await withRedis(primary.port, (redis) => redis.set('kept', '1'))
        await until('the replica has what there is', () =>
          withRedis(replica.port, async (redis) => (await redis.get('kept')) === '1'),
        )
        proxy.drop('toServer')
        proxy.drop('toClient')
      },
      lose: async () => {
        await primary.kill()
        await withRedis(replica.port, (redis) => redis.replicaof('NO', 'ONE'))
        return { answer: 'promoted', port: replica.port }
      },
    }
  }
}

/** What the server itself says after the loss: whether the lock is gone, and what time it is. */
export function look(port: number, lockName: string): Promise<Outcome> {
  return withRedis(port, (redis) => lookBy(redis, lockName))
}

export async function lookBy(redis: Redis, lockName: string): Promise<Outcome> {
  const there = await redis.exists(lockName, `lock:${lockName}`)
  const [seconds] = await redis.time()
  const aheadSeconds = Math.round(Number(seconds) - Date.now() / 1_000)
  return { answer: there === 0 ? 'gone' : 'there', value: aheadSeconds }
}
