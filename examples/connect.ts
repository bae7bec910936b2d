/** A lock in a file: no server, and every process of this host that opens the file is kept out. */
// #region all
import { connect } from 'holdfast/connect'

const locks = await connect('sqlite:./locks.db')
await locks.using('report:daily', async (lease) => console.log(`held, token ${lease.fencingToken}`))
// #endregion

// #region close
await locks.close() // Ends the connection that connect() opened.
// #endregion
