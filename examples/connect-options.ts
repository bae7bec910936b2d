/** `connect` with a password from elsewhere, an end of the patience, and what may go wrong. */
// #region options
import { BackendUnavailableError, InvalidArgumentError } from 'holdfast'
import { connect } from 'holdfast/connect'

async function openLocks(url: string, password?: string) {
  try {
    return await connect(url, {
      password, // Instead of one in the URL; undefined: there is none.
      connectTimeoutMs: 3_000,
      ttlMs: 10_000, // The defaults of createLocks stand here too.
    })
  } catch (error) {
    if (error instanceof InvalidArgumentError) return `change the set-up: ${error.message}`
    if (error instanceof BackendUnavailableError) return `not now: ${error.message}`
    throw error
  }
}
// #endregion

console.log(await openLocks('redis://127.0.0.1:1'))
console.log(await openLocks('redsi://127.0.0.1'))
const locks = await openLocks(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
if (typeof locks !== 'string') {
  await using lease = await locks.acquire('report:daily')
  console.log(`held ${lease.lockName}`)
  await lease.release()
  await locks.close()
}
