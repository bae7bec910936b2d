/** One Redis, and the real backend in each process; its push included. */
import { redisBackendWith } from '../../backends/redis/redis-backend.ts'
import { TTL_MS } from '../scenarios.ts'
import { RedisServer } from './redis-server.ts'
import type { Ground, LockStore } from './store.ts'

export function redisStore(ground: Ground): LockStore {
  const server = new RedisServer(ground, 'redis')
  // Where data are lost, exclusion holds only for those who wait.
  const losesData = ground.scenario.everyMs.storeLoss !== Number.POSITIVE_INFINITY
  const options = losesData ? ({ onEmpty: 'wait', ttlMsMax: TTL_MS } as const) : {}
  return {
    accidents: {
      pause: () => server.pause(),
      step: () => server.step(),
      rate: () => server.changeRate(),
      stop: () => server.stop(true),
      loss: () => server.loseData(),
    },
    reach: (process) => {
      const { client, link } = server.client(process)
      return { backend: redisBackendWith(process.seams, client, options), links: [link] }
    },
    look: (nowMs) => server.watch.look(nowMs),
  }
}
