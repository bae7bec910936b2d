/** A worker that ends on SIGTERM without leaving a lock behind. */
import { ClosedError } from 'holdfast'
import { connectRedis, locksOn } from './support/connect.ts'

const redis = await connectRedis()
const locks = locksOn(redis)

async function work(signal: AbortSignal): Promise<void> {
  console.log('working')
  // Stands for a piece of work that ends by itself, or when it is told to.
  const workMs = Number(process.env['WORK_MS'] ?? 200)
  await new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, workMs)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      resolve()
    })
  })
  console.log(signal.aborted ? 'work aborted' : 'work done')
}

// #region shutdown
const GRACE_MS = 5_000 // Less than your platform waits before SIGKILL, by at least 5 s.
const stop = new AbortController() // Take no new work.
const abandon = new AbortController() // End the work under way.

process.once('SIGTERM', () => {
  stop.abort()
  setTimeout(() => abandon.abort(), GRACE_MS).unref()
})

while (!stop.signal.aborted) {
  try {
    await locks.using('queue:mail', { signal: stop.signal }, (lease) =>
      work(AbortSignal.any([lease.signal, abandon.signal])),
    )
  } catch (error) {
    // While waiting for the lock: the reason of `stop` itself. Everything else is a failure.
    if (error === stop.signal.reason || error instanceof ClosedError) break
    console.error('this piece of work failed:', error)
  }
}
await locks.close() // Releases what is still held, in at most 5 s.
await redis.quit()
// #endregion
console.log('ended')
