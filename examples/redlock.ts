/** Locks on a quorum of three independent Redis, by a URL: the first start of all. */
// #region all
import { connect } from 'holdfast/connect'

const url = process.env['REDLOCK_URL'] ?? 'redlock://127.0.0.1:6379,127.0.0.1:6380,127.0.0.1:6381'
// At the very first start only: nodes without data would not vote for one maxTtlMs, 120 s by default.
const locks = await connect(url, { onEmpty: 'fresh' })
await locks.using('report:daily', async (lease) => console.log(`held, token ${lease.fencingToken}`))
await locks.close()
// #endregion
