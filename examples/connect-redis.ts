/** The same on Redis: only the URL is another. */
// #region all
import { connect } from 'holdfast/connect'

const locks = await connect(process.env['REDIS_URL'] ?? 'redis://127.0.0.1:6379')
await locks.using('report:daily', async (lease) => console.log(`held, token ${lease.fencingToken}`))
// #endregion
await locks.close()
