/** A guard without a store: data in this process, for tests and for tools that are one process. */
// #region guard
import { createLocks, memoryBackend, memoryGuard, memoryStore } from 'holdfast'

const locks = createLocks(memoryBackend())
const store = memoryStore()
const guard = memoryGuard(store)
// #endregion

// #region late
const add = async (lease: Parameters<typeof guard.claim>[0], amount: number): Promise<void> =>
  guard.transaction(lease, async (tx) => {
    const balance = (tx.get('balance') as number | undefined) ?? 100
    tx.set('balance', balance + amount)
  })

const old = await locks.acquire('wallet:42')
const { lockName, fencingToken, owner, source } = old // What it sends when it is late.
await old.release()

await locks.using('wallet:42', (lease) => add(lease, 1)) // The next holder has come.
const late = { lockName, fencingToken, owner, source }
const answer = await add(late, 50).catch((error) => error.code)
console.log(answer, store.get('balance')) // STALE_TOKEN 101
// #endregion
await locks.close()
