/** Code that ran once, scripts that are loaded, a name of its own, and time enough. */
import type { Locks } from 'holdfast'
import type { DataGuard } from './ground.ts'

const TTL_MS = 10_000

export async function warmUp(locks: Locks, guard?: DataGuard): Promise<void> {
  const lease = await locks.acquire(`warm-up:${process.pid}`, { ttlMs: TTL_MS, renew: false })
  await guard?.transaction(lease, (tx) => tx.query('SELECT 1'))
  await lease.release()
}
