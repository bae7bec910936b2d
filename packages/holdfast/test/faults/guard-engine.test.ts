import { describe, expect, it } from 'vitest'
import { memoryBackend } from '../../src/backends/memory/memory.ts'
import type { Warning } from '../../src/core/events.ts'
import type { Lease, Locks } from '../../src/core/lease.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { fakeLocks, loseLease } from '../../src/testkit/fake-locks.ts'
import { fenced, OTHER_OWNER, outcome } from '../../src/testkit/guard-suite-harness.ts'
import { codeOf, type OpenSql, reasonOf } from '../support/postgres.ts'
import { DRIVERS, openBy } from '../support/postgres-drivers.ts'
import { standOnPostgres } from '../support/postgres-stand.ts'

const stand = standOnPostgres('engine')
const { newName } = stand

async function withLocks(locks: Locks, body: () => Promise<void>): Promise<void> {
  try {
    await body()
  } finally {
    await locks.close()
  }
}

describe.each(DRIVERS)('a lease of the engine at the guard, by %s,', (driver) => {
  const open = (): Promise<OpenSql<unknown>> => openBy(driver, stand)

  // The whole chain: a lock whose holder works under its token, one after the other.
  it('lets each holder count on what the one before it wrote', async () => {
    const { guard, append, entriesIn, entries, close } = await open()
    const locks = createLocks(memoryBackend())
    const name = newName()
    await withLocks(locks, async () => {
      const section = (lease: Lease): Promise<void> =>
        guard.transaction(lease, async (tx) => {
          await append(tx, name, String((await entriesIn(tx, name)).length))
        })
      await Promise.all(Array.from({ length: 20 }, () => locks.using(name, section)))
    })
    expect(await entries(name)).toEqual(Array.from({ length: 20 }, (_, index) => String(index)))
    await close()
  })

  // Told by the store before the deadline: revoked, or flushed away.
  it('that is lost while fn works is never committed, and using tells what fn did', async () => {
    const { guard, append, entries, outside, close } = await open()
    const locks = fakeLocks()
    const name = newName()
    await withLocks(locks, async () => {
      const run = locks.using(name, (lease) =>
        guard.transaction(lease, async (tx) => {
          await append(tx, name, 'never')
          loseLease(lease, 'superseded')
          return 'done'
        }),
      )
      const refused = await outcome(run)
      expect(codeOf(refused)).toBe('LEASE_LOST')
      expect(reasonOf(refused)).toMatchObject({ lockName: name, reason: 'superseded' })
    })
    expect(await entries(name)).toEqual([])
    // The row is free at once: its connection was destroyed, not given back.
    expect(await guard.claim(fenced(name, 1n, { source: 'other' }))).toEqual({ seq: 1n })
    const text = 'SELECT 1 FROM pg_stat_activity WHERE datname = current_database()'
    // The server is a moment behind its clients.
    await expect.poll(async () => (await outside(text, [])).length).toBeLessThanOrEqual(2)
    await close()
  })

  it('that is lost while its statement runs is told at once, not when the statement ends', async () => {
    const { guard, run: ask, close } = await open()
    const locks = fakeLocks()
    await withLocks(locks, async () => {
      const lease = await locks.acquire(newName())
      let hasRun = false
      const run = guard.transaction(lease, async (tx) => {
        setTimeout(() => loseLease(lease, 'revoked'), 50)
        await ask(tx, 'SELECT pg_sleep(20)')
        hasRun = true
      })
      expect(codeOf(await outcome(run))).toBe('LEASE_LOST')
      expect(hasRun).toBe(false)
      await lease.release()
    })
    await close()
  })

  // Tokens went back behind the library: every holder is refused, for ever, and nobody says why.
  it('that is refused although its store confirms it is reported, with the token to raise to', async () => {
    const { guard, close } = await open()
    const locks = createLocks(memoryBackend())
    const warnings: Warning[] = []
    locks.on('warning', (warning) => warnings.push(warning))
    const name = newName()
    await withLocks(locks, async () => {
      const first = await locks.acquire(name)
      const highest = first.fencingToken + 1_000_000_000n
      await guard.claim({ ...fenced(name, highest, { source: first.source }), owner: OTHER_OWNER })
      expect(codeOf(await outcome(guard.claim(first)))).toBe('STALE_TOKEN')
      await expect.poll(() => warnings.length).toBe(1)
      expect(warnings[0]).toMatchObject({ code: 'token-regression', lockName: name, highest })
      await first.release()
      await locks.backend.raise(name, highest)
      const next = await locks.acquire(name)
      expect(await guard.claim(next)).toEqual({ seq: 1n })
    })
    await close()
  })

  // The signal of a term also says "come to an end", while the term is still good.
  it('whose signal aborts while it is still valid goes on', async () => {
    const { guard, append, entries, close } = await open()
    const locks = fakeLocks()
    const name = newName()
    await withLocks(locks, async () => {
      const lease = await locks.acquire(name)
      const drain = new AbortController()
      const term = {
        lockName: lease.lockName,
        fencingToken: lease.fencingToken,
        owner: lease.owner,
        source: lease.source,
        signal: drain.signal,
        remainingMs: () => lease.remainingMs(),
        assertValid: (ms?: number) => lease.assertValid(ms),
      }
      await guard.transaction(term, async (tx) => {
        await append(tx, name, 'a')
        drain.abort(new Error('shutting down'))
        await append(tx, name, 'b')
      })
      await guard.transaction(term, (tx) => append(tx, name, 'c'))
    })
    expect(await entries(name)).toEqual(['a', 'b', 'c'])
    await close()
  })
})
