/** A guarded call inside another one, by a connection of its own. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SqliteGuard } from '../../src/guards/sqlite/guard.ts'
import { fakeLocks } from '../../src/testkit/fake-locks.ts'
import { fenced } from '../../src/testkit/guard-suite-harness.ts'
import { type OpenDatabase, sqliteDrivers } from '../support/sqlite-drivers.ts'
import { type SqliteStand, startSqliteStand } from '../support/sqlite-stand.ts'

/** Instead of waiting for ever. */
const PATIENCE_MS = 20_000

describe.each(sqliteDrivers())('a guarded call inside another one, by $name,', (driver) => {
  let stand: SqliteStand
  let outer: SqliteGuard<OpenDatabase>
  let inner: SqliteGuard<OpenDatabase>

  beforeEach(async () => {
    stand = await startSqliteStand(driver)
    outer = (await stand.open()).guard
    inner = (await stand.open()).guard
  })

  afterEach(() => stand.stop())

  // One process writes a file at a time: it waited for the outer one, which waits for it.
  it(
    'that writes the same file by another connection is refused, while both leases are renewed',
    async () => {
      const locks = fakeLocks()
      const [first, second] = [await locks.acquire('a'), await locks.acquire('b')]
      const calls = {
        transaction: () => inner.transaction(second, () => 'applied'),
        claim: () => inner.claim(second),
        update: () =>
          inner.update(second, { table: 'written', where: { id: 'x' }, set: { value: 'y' } }),
        adopt: () => inner.adopt(second),
      }
      for (const [name, call] of Object.entries(calls)) {
        const ended = outer.transaction(first, async () => await call())
        await expect(ended, name).rejects.toMatchObject({ code: 'REENTRANT' })
      }
      await expect(outer.transaction(first, () => 'free')).resolves.toBe('free')
      await locks.close()
    },
    PATIENCE_MS,
  )

  it('that only reads, or writes another file, is served', async () => {
    const other = await startSqliteStand(driver)
    const elsewhere = (await other.open()).guard
    const seen = await outer.transaction(fenced('a', 5n), async () => {
      const before = await inner.highest('a')
      return [before, await elsewhere.transaction(fenced('b', 5n), () => 'applied')]
    })
    other.stop()
    expect(seen).toEqual([null, 'applied'])
  })

  // `check` rolled back what the application had open, whose later statements then were applied one by one.
  it('or in a transaction that the application has open is refused, a check too, and leaves it as it is', async () => {
    const { db, guard } = await stand.open()
    db.exec("BEGIN; INSERT INTO written VALUES ('own', 'x', NULL, NULL, NULL, NULL, NULL)")
    const calls = [
      () => guard.check(),
      () => guard.transaction(fenced('a', 5n), () => 'applied'),
      () => guard.claim(fenced('a', 5n)),
    ]
    for (const call of calls) {
      await expect(call()).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'down' })
    }
    db.exec('COMMIT')
    const row = db.prepare("SELECT value FROM written WHERE id = 'own'").get()
    expect(row).toMatchObject({ value: 'x' })
    await expect(guard.check()).resolves.toMatchObject({ problems: [] })
  })

  it('that was left behind by one that has ended is served', async () => {
    let left: Promise<unknown> = Promise.resolve()
    let begin = (): void => undefined
    const begins = new Promise<void>((resolve) => {
      begin = resolve
    })
    await outer.transaction(fenced('a', 5n), () => {
      left = begins.then(() => inner.transaction(fenced('b', 5n), () => 'applied'))
    })
    begin()
    await expect(left).resolves.toBe('applied')
  })
})
