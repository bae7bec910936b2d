import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Fenced } from '../../src/core/backend.ts'
import { fenced } from '../../src/testkit/guard-suite-harness.ts'
import {
  drawnOrder,
  ordersOfTwo,
  type Pause,
  type Program,
  play,
} from '../support/interleavings.ts'
import {
  codeOf,
  type OpenPostgres,
  type OpenSql,
  type PostgresStand,
  startPostgresStand,
} from '../support/postgres.ts'
import { DRIVERS, openBy } from '../support/postgres-drivers.ts'

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'] as const
/** Begin with the claim, read, write, commit: a pause before each. */
const STEPS = 4
/** The same in one flight, where begin, claim and read are one step. */
const FLIGHT_STEPS = 3
/** Orders of three holders; all of them would be 34,650. */
const DRAWN_ORDERS = 40
const HOLDERS = 3

type Side = OpenSql<unknown>

let stand: PostgresStand
let admin: OpenPostgres
let names = 0

beforeAll(async () => {
  stand = await startPostgresStand()
  admin = await stand.open()
  await admin.outside('CREATE TABLE accounts (name text PRIMARY KEY, balance bigint NOT NULL)')
  await admin.outside('CREATE TABLE increments (id bigserial, name text, token bigint)')
})

afterAll(async () => {
  await admin.close()
  await stand.stop()
})

async function waiting(): Promise<number> {
  const rows = await admin.outside(
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND backend_type = 'client backend'",
  )
  return rows.length
}

const READ = `
  SELECT balance, current_setting('transaction_isolation') AS isolation
  FROM accounts WHERE name = $1`

type Step = Readonly<{ lease: Fenced; isolation: string; pause: Pause }>

/** Reads, adds one and writes what it counted, which is only right if nobody wrote in between. */
async function increment(side: Side, tx: unknown, step: Step): Promise<void> {
  await step.pause()
  return readAndAdd(side, tx, step)
}

async function readAndAdd(
  side: Side,
  tx: unknown,
  { lease, isolation, pause }: Step,
): Promise<void> {
  const { lockName, fencingToken } = lease
  const [row] = await side.run(tx, READ, [lockName])
  // Or all levels would be one, and each would pass for the others.
  expect(row?.['isolation']).toBe(isolation)
  await pause()
  const next = String(BigInt(String(row?.['balance'])) + 1n)
  await side.run(tx, 'UPDATE accounts SET balance = $2 WHERE name = $1', [lockName, next])
  const token = String(fencingToken)
  await side.run(tx, 'INSERT INTO increments (name, token) VALUES ($1, $2)', [lockName, token])
  await pause()
}

type Holder = (side: Side, lease: Fenced, isolation: string) => Program

/** `guard.transaction`. */
const guarded: Holder = (side, lease, isolation) => async (pause) => {
  await pause()
  await side.guard.transaction(lease, (tx) => increment(side, tx, { lease, isolation, pause }))
}

/** The same by a guard whose reads go out with the claim. */
const inFlight: Holder = (side, lease, isolation) => async (pause) => {
  await pause()
  await side.guard.transaction(lease, (tx) => readAndAdd(side, tx, { lease, isolation, pause }))
}

/** A transaction of the user's own, which `begins` in its way. */
const own =
  (begins: (side: Side, tx: unknown, lease: Fenced) => Promise<unknown>): Holder =>
  (side, lease, isolation) =>
  async (pause) => {
    await pause()
    const { tx, commit, rollBack } = await side.begin(isolation)
    try {
      await begins(side, tx, lease)
      await increment(side, tx, { lease, isolation, pause })
    } catch (error) {
      await rollBack()
      throw error
    }
    await commit()
  }

const claimedInside = own((side, tx, lease) => side.guard.claim(lease, tx))
const unguarded = own(async () => undefined)

type Seen = { readonly codes: readonly unknown[]; readonly lost: number }

/** One order of steps of holders with tokens 1, 2, … on an account of their own. */
async function run(
  sides: readonly Side[],
  holder: Holder,
  isolation: string,
  order: readonly number[],
): Promise<Seen> {
  const name = `interleavings:${++names}`
  await admin.outside('INSERT INTO accounts VALUES ($1, 0)', [name])
  const programs = sides.map((side, index) => {
    const owner = `owner-of-interleaving${index}`
    return holder(side, fenced(name, BigInt(index + 1), { owner }), isolation)
  })
  const codes = (await play(programs, order, waiting)).map(codeOf)
  const [account] = await admin.outside('SELECT balance FROM accounts WHERE name = $1', [name])
  const written = await admin.outside('SELECT token FROM increments WHERE name = $1 ORDER BY id', [
    name,
  ])
  const acknowledged = codes.flatMap((code, index) => (code === 'fulfilled' ? [index + 1] : []))
  const tokens = written.map(({ token }) => Number(token))
  // What was acknowledged was applied, and nothing else was.
  expect([...tokens].sort(), order.join('')).toEqual(acknowledged)
  // Nothing of a smaller token after something of a larger one.
  if (holder !== unguarded) expect(tokens, order.join('')).toEqual(acknowledged)
  return { codes, lost: acknowledged.length - Number(account?.['balance']) }
}

async function runAll(
  sides: readonly Side[],
  holder: Holder,
  isolation: string,
): Promise<{ codes: readonly unknown[]; lost: number; orders: number }> {
  const steps = holder === inFlight ? FLIGHT_STEPS : STEPS
  const orders =
    sides.length === 2
      ? [...ordersOfTwo(steps)]
      : Array.from({ length: DRAWN_ORDERS }, (_, seed) => drawnOrder(sides.length, steps, seed))
  const seen: Seen[] = []
  for (const order of orders) seen.push(await run(sides, holder, isolation, order))
  const lost = seen.reduce((sum, one) => sum + one.lost, 0)
  return { codes: seen.flatMap(({ codes }) => codes), lost, orders: orders.length }
}

function count(codes: readonly unknown[], wanted: unknown): number {
  return codes.filter((code) => code === wanted).length
}

describe.each(DRIVERS)('holders by %s, in every order of their statements,', (driver) => {
  for (const isolation of ISOLATIONS) {
    const open = (holders: number): Promise<Side[]> =>
      Promise.all(Array.from({ length: holders }, () => openBy(driver, stand, { isolation })))
    const close = (sides: readonly Side[]): Promise<unknown> =>
      Promise.all(sides.map((side) => side.close()))

    // A guard on writes alone lets an old holder's write land between the next one's read and write;
    // a snapshot that is older than the claim lets the next one count on what it did not see.
    it.each([2, HOLDERS])(
      `lose nothing under the guard at ${isolation}: %s of them`,
      async (holders) => {
        const sides = await open(holders)
        const { codes, lost, orders } = await runAll(sides, guarded, isolation)
        expect(lost).toBe(0)
        // Serialization failures are run again by the guard: all that is ever refused is stale.
        expect(new Set(codes)).toEqual(new Set(['fulfilled', 'STALE_TOKEN']))
        expect(count(codes, 'STALE_TOKEN')).toBeGreaterThan(0)
        // The newest holder is never refused, and an older one only where it comes late.
        expect(count(codes, 'fulfilled')).toBeGreaterThan(orders)
        await close(sides)
      },
    )

    it(`lose nothing by a claim in a transaction of their own at ${isolation}`, async () => {
      const sides = await open(2)
      const { codes, lost } = await runAll(sides, claimedInside, isolation)
      expect(lost).toBe(0)
      const failed = count(codes, '40001')
      expect(count(codes, 'fulfilled') + count(codes, 'STALE_TOKEN') + failed).toBe(codes.length)
      // There the failure is the user's to see: the guard runs nothing again.
      if (isolation === 'read committed') expect(failed).toBe(0)
      else expect(failed).toBeGreaterThan(0)
      await close(sides)
    })
  }

  // The control: if nothing is lost without a guard, the orders above show nothing.
  it('lose acknowledged updates without a guard', async () => {
    const sides = [await openBy(driver, stand), await openBy(driver, stand)]
    const { codes, lost } = await runAll(sides, unguarded, 'read committed')
    expect(count(codes, 'fulfilled')).toBe(codes.length)
    expect(lost).toBeGreaterThan(0)
    await Promise.all(sides.map((side) => side.close()))
  })
})

// A read that overtakes its claim, or an answer that is handed on before the verdict, counts on what the
// next holder is about to change.
describe('holders by pg in pipeline mode, in every order of their flights,', () => {
  it.each(ISOLATIONS.flatMap((isolation) => [2, HOLDERS].map((n) => [isolation, n] as const)))(
    'lose nothing under the guard at %s: %s of them',
    async (isolation, holders) => {
      const open = (): Promise<Side> => openBy('pg, pipelined', stand, { isolation })
      const sides = await Promise.all(Array.from({ length: holders }, open))
      const { codes, lost, orders } = await runAll(sides, inFlight, isolation)
      expect(lost).toBe(0)
      expect(new Set(codes)).toEqual(new Set(['fulfilled', 'STALE_TOKEN']))
      expect(count(codes, 'STALE_TOKEN')).toBeGreaterThan(0)
      expect(count(codes, 'fulfilled')).toBeGreaterThan(orders)
      await Promise.all(sides.map((side) => side.close()))
    },
  )
})
