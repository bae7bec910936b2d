/** One of several processes leads, without a server: run it twice at the same time. */
import { setTimeout as sleep } from 'node:timers/promises'
// #region all
import { connect } from 'holdfast/connect'
import { createElection } from 'holdfast/election'

const locks = await connect('sqlite:./locks.db')
const election = createElection(locks, 'leaders:billing', { ttlMs: 5_000, drainMs: 2_000 })

const stop = new AbortController()
process.once('SIGTERM', () => stop.abort())

const value = `process ${process.pid}`
for await (const term of election.campaign({ value, signal: stop.signal })) {
  console.log(`${value} leads in term ${term.fencingToken}`)
  await work(term.signal) // Ends when the signal aborts; then this process has resigned.
}
await locks.close()
// #endregion

async function work(signal: AbortSignal): Promise<void> {
  // An abort only ends it sooner.
  await sleep(200, undefined, { signal }).catch(() => {})
  // Stands for the SIGTERM of the platform.
  stop.abort()
}
