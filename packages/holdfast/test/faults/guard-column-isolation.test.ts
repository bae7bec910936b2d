import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Fenced } from '../../src/core/backend.ts'
import { type ColumnForm, fenced } from '../../src/testkit/guard-suite-harness.ts'
import { ordersOfTwo, type Pause, type Program, play } from '../support/interleavings.ts'
import { codeOf, type OpenPostgres, type OpenSql } from '../support/postgres.ts'
import { DRIVERS, openBy } from '../support/postgres-drivers.ts'
import { standOnPostgres } from '../support/postgres-stand.ts'

const ISOLATIONS = ['read committed', 'repeatable read', 'serializable'] as const
/** Begin and read, write, commit: a pause before each. */
const STEPS = 3

const stand = standOnPostgres('isolation')
let admin: OpenPostgres

beforeAll(async () => {
  admin = await stand.open()
})

afterAll(() => admin?.close())

type Side = OpenSql<unknown> & { readonly column?: ColumnForm<unknown> }

/** One guarded write of a row. */
type Write = Readonly<{ side: Side; row: string; lease: Fenced; op: string; isolation: string }>

/** Reads, so that its snapshot is older than what it writes, and then writes. */
async function readAndWrite(write: Write, tx: unknown, pause: Pause): Promise<string> {
  const { side, row, lease, op, isolation } = write
  const text = `SELECT current_setting('transaction_isolation') AS isolation FROM written WHERE id = $1`
  const [seen] = await side.run(tx, text, [row])
  // Or all levels would be one, and each would pass for the others.
  expect(seen?.['isolation']).toBe(isolation)
  await pause()
  const value = String(lease.fencingToken)
  const where = { table: 'written', where: { id: row }, set: { value }, op }
  const answer = await side.guard.update(lease, where, tx)
  await pause()
  return answer
}

type Holder = (write: Write) => Program

/** In `guard.transaction`, under a lock of its own: what the two contend for is the row. */
const guarded: Holder = (write) => async (pause) => {
  await pause()
  return write.side.guard.transaction(write.lease, (tx) => readAndWrite(write, tx, pause))
}

const own: Holder = (write) => async (pause) => {
  await pause()
  const { tx, commit, rollBack } = await write.side.begin(write.isolation)
  let answer: string
  try {
    answer = await readAndWrite(write, tx, pause)
  } catch (error) {
    await rollBack()
    throw error
  }
  await commit()
  return answer
}

/** Without a transaction, beside one that has read. */
const alone: Holder =
  ({ side, row, lease, op }) =>
  async (pause) => {
    await pause()
    const value = String(lease.fencingToken)
    return side.guard.update(lease, { table: 'written', where: { id: row }, set: { value }, op })
  }

async function waiting(): Promise<number> {
  const text =
    "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND backend_type = 'client backend'"
  return (await admin.outside(text)).length
}

type Presented = Readonly<{ token: bigint; owner: string; op: string }>
type Pair = readonly [first: Presented, second: Presented]

const NEIGHBOURS: Pair = [
  { token: 1n, owner: 'owner-of-the-first-one', op: 'first' },
  { token: 2n, owner: 'owner-of-the-second-on', op: 'second' },
]
/** One call of one lease, made twice. */
const REPEAT: Pair = [NEIGHBOURS[0], NEIGHBOURS[0]]

/** What each of the two was told, in every order of their statements, and what the row went through. */
async function playAll(
  sides: readonly Side[],
  holders: readonly [Holder, Holder],
  isolation: string,
  pair: Pair,
): Promise<{ told: (readonly unknown[])[]; histories: (readonly string[])[] }> {
  const told: (readonly unknown[])[] = []
  const histories: (readonly string[])[] = []
  for (const order of ordersOfTwo(STEPS)) {
    const row = stand.newName()
    await admin.column?.add(row)
    const programs = pair.map(({ token, owner, op }, index) => {
      const lease = fenced(`${row}:${index}`, token, { owner })
      const side = sides[index] as Side
      return (holders[index] as Holder)({ side, row, lease, op, isolation })
    })
    const settled = await play(programs, order, waiting)
    const words = settled.map((one) => (one.status === 'fulfilled' ? one.value : codeOf(one)))
    const history = (await admin.column?.history(row)) ?? []
    // What was told as applied is all that was, each once, and no smaller token after a larger one.
    const applied = pair.flatMap(({ token }, index) =>
      words[index] === 'applied' ? [String(token)] : [],
    )
    expect(history, order.join('')).toEqual(applied)
    const [kept] = await admin.outside('SELECT value, fence FROM written WHERE id = $1', [row])
    expect([kept?.['value'], kept?.['fence']]).toEqual([history.at(-1), history.at(-1)])
    told.push(words)
    histories.push(history)
  }
  return { told, histories }
}

const count = (told: readonly (readonly unknown[])[], wanted: unknown): number =>
  told.flat().filter((one) => one === wanted).length

describe.each(DRIVERS)(
  'guarded writes of one row by %s, in every order of statements,',
  (driver) => {
    describe.each(ISOLATIONS)('at %s', (isolation) => {
      const withSides = async (body: (sides: readonly Side[]) => Promise<void>): Promise<void> => {
        const sides = [
          await openBy(driver, stand, { isolation }),
          await openBy(driver, stand, { isolation }),
        ]
        try {
          await body(sides)
        } finally {
          for (const side of sides) await side.close()
        }
      }

      // A snapshot from before the next holder's write shows a row that the older one may still write.
      it('in transactions of the guard: the newer is never refused, the older only as stale', () =>
        withSides(async (sides) => {
          const { told } = await playAll(sides, [guarded, guarded], isolation, NEIGHBOURS)
          for (const [older, newer] of told) {
            expect(['applied', 'STALE_TOKEN']).toContain(older)
            expect(newer).toBe('applied')
          }
          expect(count(told, 'STALE_TOKEN')).toBeGreaterThan(0)
          expect(count(told, 'applied')).toBeGreaterThan(told.length)
        }))

      it('in transactions of the user: serialization failures are the user’s, the rest is the same', () =>
        withSides(async (sides) => {
          const { told } = await playAll(sides, [own, own], isolation, NEIGHBOURS)
          const failed = count(told, '40001')
          if (isolation === 'read committed') expect(failed).toBe(0)
          else expect(failed).toBeGreaterThan(0)
          for (const [older, newer] of told) {
            expect(['applied', 'STALE_TOKEN', '40001']).toContain(older)
            expect(['applied', '40001']).toContain(newer)
            // One of two that fell out with each other goes on.
            expect([older, newer]).toContain('applied')
          }
        }))

      it('beside one that is alone: it too is refused only as stale', () =>
        withSides(async (sides) => {
          const { told } = await playAll(sides, [own, alone], isolation, NEIGHBOURS)
          for (const [older, newer] of told) {
            expect(['applied', 'STALE_TOKEN', '40001']).toContain(older)
            expect(newer).toBe('applied')
          }
          expect(count(told, 'applied')).toBeGreaterThan(told.length)
        }))

      // Both find a row that does not know the call yet.
      it('a call that is made twice at once is applied once', () =>
        withSides(async (sides) => {
          for (const holder of [guarded, own]) {
            const { told, histories } = await playAll(sides, [holder, holder], isolation, REPEAT)
            for (const history of histories) expect(history).toEqual(['1'])
            for (const words of told) expect(words).toContain('applied')
            if (holder === guarded) expect(count(told, 'already-applied')).toBe(told.length)
          }
        }))
    })
  },
)
