/// <reference lib="esnext.disposable" preserve="true" />
/** Locks on a quorum of independent Redis primaries: `createLocks(redlockBackend({ a, b, c }))`. */
export { type RedlockInitOptions, redlockInit } from './backends/redlock/init.ts'
export type { RedlockNode, RedlockOptions } from './backends/redlock/options.ts'
export {
  type RedlockReconfigureOptions,
  redlockReconfigure,
} from './backends/redlock/reconfigure.ts'
export { redlockBackend } from './backends/redlock/redlock-backend.ts'
export { type NodeStatus, redlockStatus } from './backends/redlock/status.ts'
export type { RedisClient } from './clients/redis.ts'
export type { RedisSubscriber } from './clients/redis-subscriber.ts'
