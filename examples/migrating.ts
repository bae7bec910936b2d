/** The same work as with redlock and with redis-semaphore, beside programs that still use them. */
import { createLocks, LeaseLostError, LockHeldError } from 'holdfast'
import { redisBackend } from 'holdfast/redis'
import { connectRedis } from './support/connect.ts'

const redis = await connectRedis()

/** What a program with redis-semaphore does for `new Mutex(redis, 'report').acquire()`. */
const oldProgram = {
  acquire: () => redis.set('mutex:report', 'a-uuid', 'PX', 10_000, 'NX'),
  release: () => redis.del('mutex:report'),
}

// #region beside
// The keys of redis-semaphore's mutexes; for those of redlock, keyPrefix: ''.
const locks = createLocks(redisBackend(redis, { keyPrefix: 'mutex:' }), { ttlMs: 10_000 })
// #endregion

await oldProgram.acquire()
console.log(`while the old program holds it: ${await locks.tryAcquire('report')}`)
await oldProgram.release()

// #region using
// redlock: await redlock.using(['report'], 5000, async (signal) => { … })
await locks.using('report', { ttlMs: 5_000 }, async (lease) => {
  console.log(`while we hold it, the old program gets: ${await oldProgram.acquire()}`)
  lease.signal.throwIfAborted() // redlock: if (signal.aborted) throw signal.error
})
// #endregion

// #region handle
// redlock:         let lock = await redlock.acquire(['report'], 5000)
// redis-semaphore: const mutex = new Mutex(redis, 'report'); await mutex.acquire()
const lease = await locks.acquire('report', { waitMs: 10_000 })
try {
  // redlock: lock = await lock.extend(5000). Not needed: the watchdog renews.
  lease.assertValid() // redis-semaphore: if (!mutex.isAcquired) …
} finally {
  // redlock, redis-semaphore: await lock.release()
  await lease.release()
}
// #endregion

// #region errors
async function once(work: (signal: AbortSignal) => Promise<void>): Promise<string> {
  try {
    await locks.using('report', { waitMs: 1_000 }, (held) => work(held.signal))
    return 'done'
  } catch (error) {
    // redlock: ExecutionError, ResourceLockedError. redis-semaphore: TimeoutError.
    if (error instanceof LockHeldError) return 'another process has it'
    // redlock: the event `error`, or signal.error. redis-semaphore: onLockLost, LostLockError.
    if (error instanceof LeaseLostError) return `lost (${error.reason})`
    throw error
  }
}
// #endregion

console.log(await once(async () => {}))
await oldProgram.acquire()
console.log(await once(async () => {}))

await locks.close()
await redis.quit()
