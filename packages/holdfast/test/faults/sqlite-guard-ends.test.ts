import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { SqliteDatabase } from '../../src/clients/sqlite.ts'
import {
  BackendUnavailableError,
  GuardBusyError,
  InvalidArgumentError,
  LeaseLostError,
  OutcomeUnknownError,
  ReentrantAcquireError,
} from '../../src/core/errors.ts'
import { sqliteGuardWith } from '../../src/guards/sqlite/guard.ts'
import {
  fenced,
  gate,
  leaseFor,
  OTHER_OWNER,
  outcome,
} from '../../src/testkit/guard-suite-harness.ts'
import { type OpenDatabase, sqliteDrivers } from '../support/sqlite-drivers.ts'
import {
  type OpenSqlite,
  readEntries,
  type SqliteStand,
  startSqliteStand,
} from '../support/sqlite-stand.ts'

const VALID_MS = 150
const INSERT = "INSERT INTO entries (resource, entry) VALUES ('r', ?)"

for (const driver of sqliteDrivers()) {
  describe(`the end of a guarded transaction, by ${driver.name}`, () => {
    let stand: SqliteStand
    let ours: OpenSqlite
    const lease = fenced('r', 5n)

    beforeEach(async () => {
      stand = await startSqliteStand(driver)
      ours = await stand.open()
    })
    afterEach(() => stand.stop())

    const add = (tx: OpenDatabase, entry: string): unknown => tx.prepare(INSERT).run(entry)
    const entries = (): readonly string[] => readEntries(ours.other, 'r')

    // B096. The transaction is rolled back and the next holder goes on; what the old one sends now
    // would be a transaction of its own, that no fence guards.
    it('after its lease is lost no statement of the function writes, however it is sent', async () => {
      const prepared = ours.db.prepare(INSERT)
      const taken = gate()
      const seen: unknown[] = []
      const look = (write: () => unknown): void => {
        try {
          seen.push(write())
        } catch (error) {
          seen.push(error)
        }
      }
      const lost = leaseFor(lease, VALID_MS)
      const run = outcome(
        ours.guard.transaction(lost, async (tx) => {
          const early = tx.prepare(INSERT)
          early.run('before')
          await taken.opened
          look(() => add(tx, 'by the handle'))
          look(() => early.run('by a statement of the handle'))
          look(() => tx.exec("INSERT INTO entries (resource, entry) VALUES ('r', 'by exec')"))
          look(() => add(ours.db, 'by the connection'))
          look(() => prepared.run('by a statement that was prepared before'))
          look(() => ours.db.exec('BEGIN IMMEDIATE'))
          ours.db.exec('BEGIN')
          look(() => add(ours.db, 'in a transaction of its own'))
        }),
      )
      const next = await stand.open()
      await next.guard.transaction(fenced('r', 6n, { owner: OTHER_OWNER }), (tx) => {
        add(tx, 'next')
      })
      taken.open()
      const settled = await run
      expect(settled.status === 'rejected' && settled.reason).toBeInstanceOf(LeaseLostError)
      expect(entries()).toEqual(['next'])
      expect(seen).toHaveLength(7)
      for (const one of seen) expect(one).toBeInstanceOf(Error)
      for (const one of seen.slice(0, 3)) expect(one).toBeInstanceOf(LeaseLostError)
      // And the connection is as it was.
      add(ours.db, 'after')
      expect(entries()).toEqual(['next', 'after'])
    })

    it('a statement after the end is refused, and one before it is not', async () => {
      const kept: OpenDatabase[] = []
      await ours.guard.transaction(lease, (tx) => {
        kept.push(tx)
        add(tx, 'inside')
      })
      const [tx] = kept as [OpenDatabase]
      expect(() => tx.exec('DELETE FROM entries')).toThrow(InvalidArgumentError)
      await expect(ours.guard.claim(lease, tx)).rejects.toThrow(InvalidArgumentError)
      expect(entries()).toEqual(['inside'])
    })

    for (const [text, left] of [
      ['COMMIT', ['before']],
      ['ROLLBACK', []],
      ['COMMIT; BEGIN', ['before']],
      ['ROLLBACK; BEGIN IMMEDIATE', []],
    ] as const) {
      // What it did was applied or not by its own doing; to say that nothing was would be a lie.
      it(`a function that ends its transaction with ${text} is told what became of it`, async () => {
        for (const how of ['the handle', 'the connection'] as const) {
          const run = ours.guard.transaction(lease, (tx) => {
            add(tx, 'before')
            const by = how === 'the handle' ? tx : ours.db
            by.exec(text)
            return 'done'
          })
          const settled = await outcome(run)
          const isRolledBack = text === 'ROLLBACK'
          const expected = isRolledBack ? BackendUnavailableError : OutcomeUnknownError
          expect(settled.status === 'rejected' && settled.reason, how).toBeInstanceOf(expected)
          expect(entries()).toEqual(left)
          ours.other.exec('DELETE FROM entries')
          // The connection is in no transaction, and goes on.
          expect((await ours.guard.claim(lease)).seq).toBeGreaterThan(0n)
        }
      })
    }

    // SQLite rolls back by itself; the function that goes on would write without its claim.
    it('when SQLite itself rolls back, no later statement of the function is applied', async () => {
      const pages = ours.db.prepare('PRAGMA page_count').get() as Record<string, number>
      ours.db.exec(`PRAGMA max_page_count = ${Object.values(pages)[0]}`)
      const errors: unknown[] = []
      const attempt = (write: () => unknown): void => {
        try {
          write()
        } catch (error) {
          errors.push(error)
        }
      }
      const run = ours.guard.transaction(lease, (tx) => {
        add(tx, 'before')
        attempt(() => add(tx, 'x'.repeat(200_000)))
        attempt(() => add(tx, 'a note of the failure'))
        return 'done'
      })
      await expect(run).rejects.toMatchObject({ why: 'out-of-memory' })
      expect(errors).toHaveLength(2)
      expect(entries()).toEqual([])
      await expect(ours.guard.highest('r')).resolves.toBeNull()

      ours.db.exec('PRAGMA max_page_count = 100000')
      ours.db.exec('CREATE TABLE once (id INTEGER PRIMARY KEY); INSERT INTO once VALUES (1)')
      const replaced = ours.guard.transaction(lease, async (tx) => {
        add(tx, 'before')
        attempt(() => tx.exec('INSERT OR ROLLBACK INTO once VALUES (1)'))
        attempt(() => add(tx, 'after'))
      })
      await expect(replaced).rejects.toThrow(BackendUnavailableError)
      expect(errors).toHaveLength(4)
      expect(entries()).toEqual([])
    })

    it('savepoints inside are the function’s own affair', async () => {
      await ours.guard.transaction(lease, (tx) => {
        add(tx, 'kept')
        tx.exec('SAVEPOINT a')
        add(tx, 'undone')
        tx.exec('ROLLBACK TO a; RELEASE a')
      })
      expect(entries()).toEqual(['kept'])
    })

    it('a transaction of the driver is a savepoint in each form', async ({ skip }) => {
      if (driver.name === 'node:sqlite') return skip('this driver has none')
      type Form = (entry: string) => void
      type Forms = Form & { immediate: Form; exclusive: Form; deferred: Form; default: Form }
      type Having = { transaction(fn: Form): Forms }
      let kept: Forms | null = null
      await ours.guard.transaction(lease, (tx) => {
        const write = (tx as unknown as Having).transaction((entry) => {
          add(tx, entry)
          if (entry === 'bad') throw new RangeError('bad')
        })
        write('plain')
        for (const form of ['immediate', 'exclusive', 'deferred', 'default'] as const) {
          write[form](form)
        }
        expect(() => write.immediate('bad')).toThrow(RangeError)
        kept = write
      })
      const all = ['plain', 'immediate', 'exclusive', 'deferred', 'default']
      expect(entries()).toEqual(all)
      const late = kept as Forms | null
      expect(() => late?.immediate('late')).toThrow(/a transaction that is over/)
      expect(entries()).toEqual(all)
    })

    it('an iterator that the function leaves open keeps nothing', async () => {
      ours.other.exec("INSERT INTO entries (resource, entry) VALUES ('s', '1'), ('s', '2')")
      type Iterating = { iterate(): Iterator<unknown> }
      const open = (db: OpenDatabase): Iterator<unknown> => {
        const rows = (db.prepare('SELECT * FROM entries') as unknown as Iterating).iterate()
        rows.next()
        return rows
      }
      await ours.guard.transaction(lease, (tx) => {
        add(tx, 'first')
        open(tx)
      })
      expect(entries()).toEqual(['first'])
      let left: Iterator<unknown> | null = null
      const second = await outcome(
        ours.guard.transaction(lease, (tx) => {
          add(tx, 'second')
          left = open(ours.db)
        }),
      )
      // One driver cannot end the transaction then; the other can.
      const applied = second.status === 'fulfilled' ? ['first', 'second'] : ['first']
      expect(entries()).toEqual(applied)
      const rows = left as Iterator<unknown> | null
      rows?.return?.()
      await ours.guard.transaction(lease, (tx) => add(tx, 'third'))
      expect(entries()).toEqual([...applied, 'third'])
    })

    it('what COMMIT finds wrong with the data reaches the caller as it is', async () => {
      ours.db.exec(`PRAGMA foreign_keys = ON; CREATE TABLE parents (id INTEGER PRIMARY KEY);
        CREATE TABLE children (parent REFERENCES parents DEFERRABLE INITIALLY DEFERRED)`)
      const run = ours.guard.transaction(lease, (tx) => {
        add(tx, 'never')
        tx.exec('INSERT INTO children VALUES (7)')
      })
      await expect(run).rejects.toThrow(/FOREIGN KEY/)
      expect(entries()).toEqual([])
      await expect(ours.guard.claim(lease)).resolves.toEqual({ seq: 1n })
    })

    it('a function that returns no promise runs in one turn with its transaction', async () => {
      const order: string[] = []
      const run = ours.guard.transaction(lease, (tx) => {
        setImmediate(() => order.push('turn'))
        queueMicrotask(() => order.push(`microtask sees ${readEntries(ours.other, 'r').length}`))
        add(tx, 'inside')
        return 7
      })
      await expect(run).resolves.toBe(7)
      expect(order).toEqual(['microtask sees 1'])
    })

    // No timer fires while it runs: only COMMIT itself can ask.
    it('a function that runs past its lease without a pause is not committed', async () => {
      const late = leaseFor(lease, VALID_MS)
      const run = ours.guard.transaction(late, (tx) => {
        add(tx, 'never')
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 2 * VALID_MS)
      })
      await expect(run).rejects.toThrow(LeaseLostError)
      expect(entries()).toEqual([])
      await expect(ours.guard.claim(lease)).resolves.toEqual({ seq: 1n })
    })

    it('a connection that the function closes has applied nothing', async () => {
      const run = ours.guard.transaction(lease, async (tx) => {
        add(tx, 'never')
        ours.db.close()
      })
      await expect(run).rejects.toThrow(BackendUnavailableError)
      expect(entries()).toEqual([])
    })

    it('a guarded call inside another one on the connection is refused at once', async () => {
      const run = ours.guard.transaction(lease, async () => ours.guard.claim(fenced('other', 5n)))
      await expect(run).rejects.toThrow(ReentrantAcquireError)
      const inside = ours.guard.transaction(lease, (tx) =>
        ours.guard.claim(fenced('other', 5n), tx),
      )
      await expect(inside).resolves.toEqual({ seq: 1n })
    })

    it('a call on a connection that is inside somebody’s transaction says so', async () => {
      ours.db.exec('BEGIN')
      await expect(ours.guard.claim(lease)).rejects.toThrow(/a connection of its own/)
      await expect(ours.guard.claim(lease, ours.db)).resolves.toEqual({ seq: 1n })
      ours.db.exec('COMMIT')
      await expect(ours.guard.claim(lease, ours.db)).rejects.toThrow(InvalidArgumentError)
    })

    // node:sqlite says whether a transaction is open from Node 22.16 on.
    it('a driver that does not tell whether a transaction is open is asked all the same', async () => {
      const silent: SqliteDatabase = {
        exec: (sql) => ours.db.exec(sql),
        prepare: (sql) => ours.db.prepare(sql),
      }
      const guard = sqliteGuardWith(silent, {})
      await guard.transaction(lease, async (tx) => tx.prepare(INSERT).run('inside'))
      expect(entries()).toEqual(['inside'])
      const ended = guard.transaction(lease, (tx) => void tx.exec('COMMIT'))
      await expect(ended).rejects.toThrow(OutcomeUnknownError)
      const lost = guard.transaction(leaseFor(lease, VALID_MS), async (tx) => {
        tx.prepare(INSERT).run('never')
        await sleep(2 * VALID_MS)
      })
      await expect(lost).rejects.toThrow(LeaseLostError)
      expect(entries()).toEqual(['inside'])
      ours.db.exec('BEGIN')
      await expect(guard.claim(lease)).rejects.toThrow(/a connection of its own/)
    })

    // better-sqlite3 waits for 5 s inside of SQLite by default: no timer, no signal, no renewal.
    it('the event loop runs while another connection keeps the file locked', async () => {
      const bounded = await stand.open({ timeoutMs: 600 })
      ours.other.exec('BEGIN IMMEDIATE')
      let ticks = 0
      const ticking = setInterval(() => {
        ticks += 1
      }, 5)
      await expect(bounded.guard.claim(lease)).rejects.toThrow(GuardBusyError)
      clearInterval(ticking)
      ours.other.exec('ROLLBACK')
      expect(ticks).toBeGreaterThan(2)
      await expect(bounded.guard.claim(lease)).resolves.toEqual({ seq: 1n })
    })
  })

  describe(`without a write-ahead log, by ${driver.name}`, () => {
    let stand: SqliteStand
    let ours: OpenSqlite
    const lease = fenced('r', 5n)

    beforeEach(async () => {
      stand = await startSqliteStand(driver, 'DELETE')
      ours = await stand.open()
    })
    afterEach(() => stand.stop())

    /** Reads until the result is called. */
    const reading = (): (() => void) => {
      const reader = stand.connect()
      reader.exec('BEGIN')
      readEntries(reader, 'r')
      return () => reader.exec('COMMIT')
    }

    // A reader keeps COMMIT from the file. Running the work again would do its other effects twice; and
    // waiting inside of SQLite would hold the event loop for 5 s, as one driver does by default.
    for (const [kind, work] of [
      ['returns no promise', (): void => undefined],
      ['is asynchronous', () => sleep(1)],
    ] as const) {
      it(`COMMIT waits for who reads, and a function that ${kind} runs once`, async () => {
        const end = reading()
        let runs = 0
        const startedAtMs = performance.now()
        const run = ours.guard.transaction(lease, (tx) => {
          runs += 1
          tx.prepare(INSERT).run('once')
          return work()
        })
        await sleep(100)
        expect(runs).toBe(1)
        end()
        await run
        expect(performance.now() - startedAtMs).toBeLessThan(4000)
        expect(runs).toBe(1)
        expect(readEntries(ours.other, 'r')).toEqual(['once'])
      })
    }

    it('COMMIT that waits too long is given up, and nothing is applied', async () => {
      const bounded = await stand.open({ timeoutMs: VALID_MS })
      const end = reading()
      const write = (tx: OpenDatabase): unknown => tx.prepare(INSERT).run('never')
      await expect(bounded.guard.transaction(lease, write)).rejects.toThrow(GuardBusyError)
      const valid = leaseFor(lease, VALID_MS)
      const late = bounded.guard.transaction(valid, async (tx) => write(tx))
      await expect(late).rejects.toThrow(LeaseLostError)
      await expect(ours.guard.claim(leaseFor(lease, VALID_MS))).rejects.toThrow(LeaseLostError)
      end()
      expect(readEntries(ours.other, 'r')).toEqual([])
      await expect(bounded.guard.claim(lease)).resolves.toEqual({ seq: 1n })
    })
  })
}
