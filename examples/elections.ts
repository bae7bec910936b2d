/** Of several instances one leads; the others stand by, and anybody may look who it is. */
import { setTimeout as sleep } from 'node:timers/promises'
import { StaleTokenError } from 'holdfast'
import { createElection, type Election } from 'holdfast/election'
import { postgresGuard } from 'holdfast/guards/postgres'
import { Pool } from 'pg'
import { connectRedis, locksOn } from './support/connect.ts'
import { createWallets } from './support/wallets.ts'

await createWallets()
const redis = await connectRedis()
const locks = locksOn(redis)
const pool = new Pool()
const guard = postgresGuard(pool)
await guard.migrate()

/** Stands for an instance of your service. */
async function instance(name: string, election: Election, signal: AbortSignal): Promise<void> {
  // #region campaign
  for await (const term of election.campaign({ value: name, signal })) {
    try {
      while (!term.signal.aborted) {
        // The guard refuses what a deposed leader writes, whatever it still believes.
        await guard.transaction(term, (tx) =>
          tx.query('update wallets set balance = balance + 1 where id = 42'),
        )
        await sleep(100, undefined, { signal: term.signal })
      }
    } catch (error) {
      // Told to stop, or deposed: on to the next round, if there is one. The rest is a failure.
      if (!term.signal.aborted && !(error instanceof StaleTokenError)) throw error
    }
  }
  // #endregion
}

const election = createElection(locks, 'leaders:billing', { ttlMs: 5_000, drainMs: 2_000 })

let seen: string | undefined
// #region observe
const stopLooking = new AbortController()
const looking = (async () => {
  for await (const leadership of election.observe({ signal: stopLooking.signal })) {
    seen = leadership?.value
    if (leadership !== null) console.log(`${seen} leads`) // Null: nobody, just now.
  }
})()
// #endregion

const ends = { a: new AbortController(), b: new AbortController() }
const a = instance('instance a', election, ends.a.signal)
await until(async () => seen === 'instance a')
const b = instance('instance b', election, ends.b.signal)

// #region leader
const leadership = await election.leader() // Null: nobody leads.
console.log(`${leadership?.value} leads in term ${leadership?.fencingToken}`)
// #endregion

// #region shutdown
ends.a.abort() // On SIGTERM: term.signal aborts, and the leader has drainMs to end its work.
await a // The loop has ended, and the leader has resigned.
// #endregion
await until(async () => seen === 'instance b')
ends.b.abort()
await b
console.log('at the end:', await election.leader())
stopLooking.abort()
await looking
await locks.close()
await Promise.all([redis.quit(), pool.end()])

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(50)
}
