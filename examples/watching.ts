/** How many locks there are, how old the oldest is, how often one was refused: what to watch. */
import { connectRedis, locksOn } from './support/connect.ts'

const redis = await connectRedis()
const locks = locksOn(redis)

// #region watching
let refused = 0
locks.on('refused', () => {
  refused += 1
})

async function look(): Promise<{ held: number; oldestMs: number; refused: number }> {
  let held = 0
  let oldestMs = 0
  for await (const { sinceAtMs } of locks.list({ limit: 10_000 })) {
    held += 1
    if (sinceAtMs !== null) oldestMs = Math.max(oldestMs, Date.now() - sinceAtMs)
  }
  return { held, oldestMs, refused }
}
// #endregion

await locks.using('report:daily', async () => {
  await locks.using('invoice:7', async () => {
    await locks.tryAcquire('report:daily')
    const { held, oldestMs, refused: count } = await look()
    console.log(
      `${held} held, the oldest since about ${Math.round(oldestMs / 1000)} s, ${count} refused`,
    )
  })
})

await locks.close()
await redis.quit()
