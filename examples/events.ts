/** What happens to locks, for logs and metrics. */
import type { LockEvents } from 'holdfast'
import { connectRedis, locksOn } from './support/connect.ts'

const redis = await connectRedis()
const locks = locksOn(redis)

// #region events
const count = new Map<string, number>()
const log = (type: keyof LockEvents, fields: object): void => {
  count.set(type, (count.get(type) ?? 0) + 1)
  // JSON knows no bigint, and fencing tokens do not fit into a number.
  const text = (_: string, value: unknown) => (typeof value === 'bigint' ? `${value}` : value)
  console.log(JSON.stringify({ event: type, ...fields }, text))
}

for (const type of ['acquired', 'released', 'lost', 'release-failed', 'warning'] as const) {
  locks.on(type, (event) => log(type, event))
}
const stop = locks.on('refused', ({ lockName, waitedMs }) => log('refused', { lockName, waitedMs }))
// #endregion

await locks.using('report:daily', async () => {
  await locks.tryAcquire('report:daily')
})
stop()
await locks
  .using('invoice:7', { ttlMs: 2_000, maxHoldMs: 2_000 }, async (lease) => {
    while (!lease.signal.aborted) await new Promise((resolve) => setTimeout(resolve, 20))
  })
  .catch((error) => console.log(`using rejected: ${error.code}`))
console.log(Object.fromEntries(count))

await locks.close()
await redis.quit()
