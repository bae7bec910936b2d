/** A Redis that fails: half of the locks are held with ioredis and half with node-redis. */
import { openRedis } from '../ground/redis-client.ts'
import { CLIENTS } from './clients.ts'
import type { OpenStand } from './failing-store.ts'
import { TTL_MS } from './times.ts'
import { noteRequests } from './wire.ts'

const OTHERS_TTL_MS = 60_000

/** @param program `hold`, or `holdByHand` with one client only. */
export const openRedisStand =
  (program: 'hold' | 'holdByHand'): OpenStand =>
  async (trial, locks) => {
    const server = await trial.startRedis()
    const proxy = await trial.startProxy(server.port)
    noteRequests(trial, proxy, locks)
    const clients = program === 'holdByHand' ? ['ioredis'] : CLIENTS
    return {
      ...{ server, proxy, program },
      holders: { clients, store: { port: proxy.port }, ttlMs: TTL_MS },
      look: async () => {},
      openOther: async () => {
        const redis = await openRedis({ redis: { host: '127.0.0.1', port: server.port } })
        return {
          take: async ({ name }) => {
            const set = redis.set(`lock:${name}`, 'somebody-else', 'PX', OTHERS_TTL_MS, 'NX')
            return (await set) === 'OK'
          },
          close: async () => redis.disconnect(),
        }
      },
    }
  }
