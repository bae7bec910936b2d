import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Fenced } from '../../src/core/backend.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { type SqliteGuard, sqliteGuardWith } from '../../src/guards/sqlite/guard.ts'
import { fenced } from '../../src/testkit/guard-suite-harness.ts'
import {
  drawnOrder,
  ordersOfTwo,
  type Pause,
  type Program,
  play,
} from '../support/interleavings.ts'
import { type OpenDatabase, sqliteDrivers } from '../support/sqlite-drivers.ts'
import { type SqliteStand, startSqliteStand } from '../support/sqlite-stand.ts'

/** Begin, claim, read, write, commit: a pause before each but the claim. */
const STEPS = 4
/** Orders of three holders; all of them would be 34,650. */
const DRAWN_ORDERS = 40
const HOLDERS = 3
/** The longest pause between two tries for the write lock, doubled by chance. */
const RETRY_MS_MAX = 32

/** Timers between two tries: who has one waits for the write lock. */
let waitingCalls = 0

const seams: Seams = {
  ...systemSeams,
  after(delayMs, fn, keepsAlive) {
    if (delayMs < 1 || delayMs > RETRY_MS_MAX) return systemSeams.after(delayMs, fn, keepsAlive)
    waitingCalls += 1
    return systemSeams.after(
      delayMs,
      () => {
        waitingCalls -= 1
        fn()
      },
      keepsAlive,
    )
  },
}

type Side = Readonly<{ db: OpenDatabase; guard: SqliteGuard<OpenDatabase> }>

const read = (db: OpenDatabase, name: string): number => {
  const row = db.prepare('SELECT balance FROM accounts WHERE name = ?').get(name)
  return Number((row as { balance: number }).balance)
}

const write = (db: OpenDatabase, name: string, balance: number, token: bigint): void => {
  db.prepare('UPDATE accounts SET balance = ? WHERE name = ?').run(balance, name)
  db.prepare('INSERT INTO increments (name, token) VALUES (?, ?)').run(name, String(token))
}

type Holder = (side: Side, lease: Fenced) => Program

/** Reads, adds one and writes what it counted, which is only right if nobody wrote in between. */
async function increment(db: OpenDatabase, lease: Fenced, pause: Pause): Promise<void> {
  await pause()
  const balance = read(db, lease.lockName)
  await pause()
  write(db, lease.lockName, balance + 1, lease.fencingToken)
  await pause()
}

const guarded: Holder =
  ({ guard }, lease) =>
  async (pause) => {
    await pause()
    await guard.transaction(lease, (tx) => increment(tx, lease, pause))
  }

/** Claims and reads in one transaction, and writes in another: between the two it may stand still. */
const inTwo: Holder =
  ({ guard }, lease) =>
  async (pause) => {
    await pause()
    const balance = await guard.transaction(lease, (tx) => read(tx, lease.lockName))
    await pause()
    await guard.transaction(lease, (tx) => {
      write(tx, lease.lockName, balance + 1, lease.fencingToken)
    })
  }

/** A transaction of the user's own. */
const claimedInside: Holder =
  ({ db, guard }, lease) =>
  async (pause) => {
    await pause()
    db.exec('BEGIN')
    try {
      await guard.claim(lease, db)
      await increment(db, lease, pause)
      db.exec('COMMIT')
    } catch (error) {
      db.exec('ROLLBACK')
      throw error
    }
  }

/** Compares tokens in the write alone. */
const writeOnly: Holder =
  ({ db, guard }, lease) =>
  async (pause) => {
    await pause()
    const balance = read(db, lease.lockName)
    await pause()
    await guard.transaction(lease, (tx) => {
      write(tx, lease.lockName, balance + 1, lease.fencingToken)
    })
  }

const unguarded: Holder =
  ({ db }, lease) =>
  (pause) =>
    increment(db, lease, pause)

for (const driver of sqliteDrivers()) {
  describe(`holders by ${driver.name}, in every order of their statements,`, () => {
    let stand: SqliteStand
    let admin: OpenDatabase
    let sides: Side[]
    let names = 0

    beforeAll(async () => {
      stand = await startSqliteStand(driver)
      admin = stand.connect()
      admin.exec('PRAGMA busy_timeout = 0')
      admin.exec(`CREATE TABLE accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL);
        CREATE TABLE increments (id INTEGER PRIMARY KEY, name TEXT, token TEXT)`)
      sides = Array.from({ length: HOLDERS }, () => {
        const db = stand.connect()
        db.exec('PRAGMA busy_timeout = 0')
        return { db, guard: sqliteGuardWith(db, { synchronous: 'normal' }, seams) }
      })
    })
    afterAll(() => stand.stop())

    /** Where nobody has the write lock, nobody waits for it: they are about to try again. */
    const waiting = async (): Promise<number> => {
      try {
        admin.exec('BEGIN IMMEDIATE')
      } catch {
        return waitingCalls
      }
      admin.exec('ROLLBACK')
      return 0
    }

    /** One order of steps of holders with tokens 1, 2, … on an account of their own. */
    const run = async (holders: number, holder: Holder, order: readonly number[]) => {
      const name = `account:${++names}`
      admin.prepare('INSERT INTO accounts VALUES (?, 0)').run(name)
      const programs = sides.slice(0, holders).map((side, index) => {
        const owner = `owner-of-interleaving${index}`
        return holder(side, fenced(name, BigInt(index + 1), { owner }))
      })
      const settled = await play(programs, order, waiting)
      const codes = settled.map((one) =>
        one.status === 'rejected' ? (one.reason.code as unknown) : one.status,
      )
      const written = admin.prepare('SELECT token FROM increments WHERE name = ? ORDER BY id')
      const tokens = (written.all(name) as { token: string }[]).map(({ token }) => Number(token))
      const acknowledged = codes.flatMap((code, index) => (code === 'fulfilled' ? [index + 1] : []))
      // What was acknowledged was applied, and nothing else was; and in the order of tokens.
      if (holder === unguarded) expect([...tokens].sort()).toEqual(acknowledged)
      else expect(tokens, order.join('')).toEqual(acknowledged)
      return { codes, lost: acknowledged.length - read(admin, name) }
    }

    const runAll = async (holders: number, holder: Holder, steps: number) => {
      const orders =
        holders === 2
          ? [...ordersOfTwo(steps)]
          : Array.from({ length: DRAWN_ORDERS }, (_, seed) => drawnOrder(holders, steps, seed))
      const codes: unknown[] = []
      let lost = 0
      for (const order of orders) {
        const seen = await run(holders, holder, order)
        codes.push(...seen.codes)
        lost += seen.lost
      }
      const count = (wanted: unknown): number => codes.filter((code) => code === wanted).length
      return { codes: new Set(codes), lost, count, orders: orders.length }
    }

    // A guard on writes alone lets an old holder's write land between the next one's read and write.
    it.each([
      ['in one transaction', guarded, STEPS],
      ['in two', inTwo, 2],
    ] as const)('lose nothing under the guard, %s', async (_, holder, steps) => {
      for (const holders of [2, HOLDERS]) {
        const { codes, lost, count, orders } = await runAll(holders, holder, steps)
        expect(lost).toBe(0)
        expect(codes).toEqual(new Set(['fulfilled', 'STALE_TOKEN']))
        // The newest holder is never refused, and an older one only where it comes late.
        expect(count('fulfilled')).toBeGreaterThan(orders)
        expect(count('STALE_TOKEN')).toBeGreaterThan(0)
      }
    })

    it('lose nothing by a claim in a transaction of their own', async () => {
      const { codes, lost, count, orders } = await runAll(2, claimedInside, STEPS)
      expect(lost).toBe(0)
      // Who comes second while the other is inside is the user's to see.
      expect(codes).toEqual(new Set(['fulfilled', 'STALE_TOKEN', 'GUARD_BUSY']))
      expect(count('fulfilled')).toBeGreaterThanOrEqual(orders)
    })

    // The control: why the claim comes before the first read.
    it('lose acknowledged updates when only the write is guarded', async () => {
      const { lost } = await runAll(2, writeOnly, 2)
      expect(lost).toBeGreaterThan(0)
    })

    // The control: if nothing is lost without a guard, the orders above show nothing.
    it('lose acknowledged updates without a guard', async () => {
      const { codes, lost } = await runAll(2, unguarded, STEPS - 1)
      expect(codes).toEqual(new Set(['fulfilled']))
      expect(lost).toBeGreaterThan(0)
    })
  })
}
