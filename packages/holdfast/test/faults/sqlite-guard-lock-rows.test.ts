import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sqliteBackend } from '../../src/backends/sqlite/sqlite-backend.ts'
import { StaleTokenError, TokenSourceError } from '../../src/core/errors.ts'
import type { Fenced, Lease, Locks } from '../../src/index.ts'
import { createLocks } from '../../src/index.ts'
import { type OpenDatabase, sqliteDrivers } from '../support/sqlite-drivers.ts'
import { type OpenSqlite, type SqliteStand, startSqliteStand } from '../support/sqlite-stand.ts'

const TTL_MS = 200

/** What a holder presents that does not know of its loss. */
function plain({ lockName, fencingToken, owner, source }: Lease): Fenced {
  return { lockName, fencingToken, owner, source }
}

for (const driver of sqliteDrivers()) {
  describe(`a guard beside its locks, by ${driver.name}`, () => {
    let data: SqliteStand
    let elsewhere: SqliteStand
    let ours: OpenSqlite
    const opened: Locks[] = []

    beforeEach(async () => {
      data = await startSqliteStand(driver)
      elsewhere = await startSqliteStand(driver)
      ours = await data.open()
    })
    afterEach(async () => {
      await Promise.all(opened.splice(0).map((locks) => locks.close()))
      data.stop()
      elsewhere.stop()
    })

    const locksIn = (stand: SqliteStand, tablePrefix?: string): Locks => {
      const locks = createLocks(sqliteBackend(stand.connect(), { tablePrefix }), { renew: false })
      opened.push(locks)
      return locks
    }

    /** Two holders, the first of whom has lost its lease without a word. */
    const twoHolders = async (locks: Locks): Promise<readonly [Fenced, Lease]> => {
      const first = await locks.acquire('r', { ttlMs: TTL_MS })
      await sleep(TTL_MS)
      const second = await locks.acquire('r', { ttlMs: 60_000, waitMs: 20_000 })
      expect(second.fencingToken).toBeGreaterThan(first.fencingToken)
      return [plain(first), second]
    }

    const append = (lease: Fenced, entry: string): Promise<unknown> =>
      ours.guard.transaction(lease, (tx: OpenDatabase) => {
        tx.prepare("INSERT INTO entries (resource, entry) VALUES ('r', ?)").run(entry)
      })

    // B096. Between the next grant and the next holder's claim the old holder's writes passed, and the
    // next one, which had read before, lost them.
    it('in one file a superseded holder is refused from the next grant on', async () => {
      const [stale, current] = await twoHolders(locksIn(data))
      await ours.column?.add('r')
      const write = { table: 'written', where: { id: 'r' }, set: { value: 'late' } }
      const own = await ours.begin()
      const calls = [
        () => ours.guard.claim(stale),
        () => append(stale, 'late'),
        () => ours.guard.adopt(stale),
        () => ours.guard.update(stale, write),
        () => ours.guard.claim(stale, own.tx),
        () => ours.guard.update(stale, write, own.tx),
      ]
      for (const call of calls) {
        const refusal = await call().then(
          () => 'applied',
          (error: unknown) => error,
        )
        expect(refusal).toBeInstanceOf(StaleTokenError)
        expect(refusal).toMatchObject({ resource: 'r', highest: current.fencingToken })
      }
      await own.commit()
      await expect(ours.guard.highest('r')).resolves.toBeNull()
      await append(current, 'next')
      await expect(ours.entries('r')).resolves.toEqual(['next'])
    })

    it('in two files it is refused from the next claim on', async () => {
      const [stale, current] = await twoHolders(locksIn(elsewhere))
      await append(stale, 'not yet refused')
      await append(current, 'next')
      await expect(append(stale, 'late')).rejects.toThrow(StaleTokenError)
      await expect(ours.entries('r')).resolves.toEqual(['not yet refused', 'next'])
    })

    it('an operator who revokes fences by that alone', async () => {
      const locks = locksIn(data)
      const lease = await locks.acquire('r', { ttlMs: 60_000 })
      const stale = plain(lease)
      await append(stale, 'before')
      const taken = await locks.revoke('r', { fencingToken: lease.fencingToken, reason: 'hangs' })
      expect(taken).not.toBeNull()
      await expect(append(stale, 'late')).rejects.toThrow(StaleTokenError)
    })

    // Their numbers do not compare.
    it('lock rows of another file, another source or another lock say nothing', async () => {
      const here = await locksIn(data).acquire('r', { ttlMs: 60_000 })
      const stale = { ...plain(here), fencingToken: 1n }
      await expect(append({ ...stale, lockName: 's' }, 'another lock')).resolves.toBeUndefined()
      const foreign = { ...stale, source: 'sqlite:of-another-file' }
      await expect(append(foreign, 'another file')).resolves.toBeUndefined()
      await expect(append(plain(here), 'a source that was not adopted')).rejects.toThrow(
        TokenSourceError,
      )
      const prefixed = await data.open({}, { tablePrefix: 'other_' })
      await prefixed.guard.migrate()
      await expect(prefixed.guard.claim(stale)).resolves.toEqual({ seq: 1n })
    })

    it('tables of the same names that are somebody else’s are left alone', async () => {
      ours.other.exec(
        'CREATE TABLE holdfast_meta (a); CREATE TABLE holdfast_locks (lock_name, fencing_token)',
      )
      const lease = { ...plain(await locksIn(elsewhere).acquire('r')) }
      await append(lease, 'applied')
      await expect(ours.entries('r')).resolves.toEqual(['applied'])
    })

    it('a guard that was used before the locks came sees them', async () => {
      const lease = plain(await locksIn(elsewhere).acquire('other'))
      await ours.guard.claim(lease)
      const [stale] = await twoHolders(locksIn(data))
      await expect(append(stale, 'late')).rejects.toThrow(StaleTokenError)
    })
  })
}
