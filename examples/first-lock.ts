/** A lock without any server: the backend in memory excludes the callers of one process. */
// #region locks
import { createLocks, memoryBackend } from 'holdfast'

const locks = createLocks(memoryBackend())
// #endregion

// #region using
await locks.using('report:daily', async (lease) => {
  console.log(`held ${lease.lockName} for ${Math.round(lease.remainingMs())} ms at least`)
})
// #endregion
await locks.close()
