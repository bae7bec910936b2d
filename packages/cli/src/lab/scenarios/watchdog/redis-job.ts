/** The store of the long job on servers: a Redis behind a proxy that shows what passes. */
import { createLocks } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import type { Job } from '../../trial.ts'
import { openRedis } from '../ground/redis-client.ts'
import { CLIENTS } from './clients.ts'
import type { HeldLock } from './holder.ts'
import type { OpenJobStore } from './job-store.ts'
import { askInTurn } from './long-job.ts'
import { noteRequests } from './wire.ts'

export const openRedisJob: OpenJobStore = async (trial, locks) => {
  const server = await trial.startRedis()
  const proxy = await trial.startProxy(server.port)
  noteRequests(trial, proxy, locks)
  const redis = await openRedis({ redis: { host: '127.0.0.1', port: server.port } })
  return {
    clients: CLIENTS,
    forHolders: { port: proxy.port },
    forOthers: { port: server.port },
    look: async (name) => {
      const [value, leftMs] = await Promise.all([
        redis.get(`lock:${name}`),
        redis.pttl(`lock:${name}`),
      ])
      return { owner: value ?? '', leftMs }
    },
    close: async () => {
      redis.disconnect()
      await proxy.close()
      await server.stop()
    },
  }
}

export async function ask(job: Job): Promise<void> {
  const { port, locks: names } = job.input as { port: number; locks: readonly HeldLock[] }
  const redis = await openRedis({ redis: { host: '127.0.0.1', port } })
  await askInTurn(job, createLocks(redisBackend(redis)), names)
  redis.disconnect()
}
