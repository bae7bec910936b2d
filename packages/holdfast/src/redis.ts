/// <reference lib="esnext.disposable" preserve="true" />
/** Locks on one Redis primary or a Redis Cluster: `createLocks(redisBackend(client))`. */
export type { RedisOptions } from './backends/redis/options.ts'
export { redisBackend } from './backends/redis/redis-backend.ts'
export type { RedisClient } from './clients/redis.ts'
export type { RedisSubscriber } from './clients/redis-subscriber.ts'
