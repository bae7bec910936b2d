/** The column form: rows that carry the fence themselves, each written in one step. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import type { Fenced } from '../core/backend.ts'
import {
  GuardBusyError,
  InvalidArgumentError,
  LeaseLostError,
  StaleTokenError,
  TokenConflictError,
  TokenSourceError,
} from '../core/errors.ts'
import { TOKEN_MAX } from '../core/token.ts'
import {
  type ColumnForm,
  fenced,
  type GuardCheck,
  type GuardStore,
  leaseFor,
  NEIGHBOURS,
  OTHER_OWNER,
  OWNER,
  outcome,
} from './guard-suite-harness.ts'

const ROUNDS = 12
/** Short enough to wait for it. Milliseconds. */
const VALID_MS = 400

/** A store of this check's own, with a row that nobody has written yet. */
export type ColumnStore<Tx> = GuardStore<Tx> & {
  readonly ourRows: ColumnForm<Tx>
  readonly theirRows: ColumnForm<Tx>
  readonly row: string
}

export type ColumnCheck<Tx> = (
  title: string,
  body: (store: ColumnStore<Tx>, skip: (reason: string) => void) => Promise<void>,
) => void

/** The same checks for guards with the column form; without it they are left out by that reason. */
export function columnChecksOf<Tx>(check: GuardCheck<Tx>): ColumnCheck<Tx> {
  return (title, body) => {
    check(`column form: ${title}`, async (store, skip) => {
      const [ourRows, theirRows] = [store.ours.column, store.theirs.column]
      if (!ourRows || !theirRows) return skip('the guard has no column form')
      const row = store.lockName
      await ourRows.add(row)
      await body({ ...store, ourRows, theirRows, row }, skip)
    })
  }
}

export function testColumns<Tx>(check: GuardCheck<Tx>): void {
  const columns = columnChecksOf(check)
  testTokens(columns)
  testRepeats(columns)
  testRefusals(columns)
  testOrder(columns)
  testTransactions(columns)
  testValidity(columns)
}

function testTokens<Tx>(check: ColumnCheck<Tx>): void {
  // A token that is rounded, or compared as text, lets a superseded holder in or keeps the next out.
  check('the larger of two neighbouring tokens supersedes the smaller, exactly', async (store) => {
    const { ourRows, theirRows } = store
    for (const [smaller, larger] of NEIGHBOURS) {
      const row = `${store.row}:${larger}`
      await ourRows.add(row)
      const next = fenced(row, larger, { owner: OTHER_OWNER })
      strictEqual(await ourRows.update(fenced(row, smaller), row, 'first'), 'applied')
      strictEqual(await theirRows.update(next, row, 'next'), 'applied')
      const refused = await outcome(ourRows.update(fenced(row, smaller), row, 'late'))
      ok(refused.status === 'rejected')
      const { reason } = refused
      ok(reason instanceof StaleTokenError, String(reason))
      deepStrictEqual([reason.presented, reason.highest], [smaller, larger])
      strictEqual(reason.resource, row)
      deepStrictEqual(await ourRows.history(row), ['first', 'next'])
    }
  })

  check('a row that is not there is told apart from one that refuses', async ({ ourRows, row }) => {
    const nowhere = `${row}:nowhere`
    strictEqual(await ourRows.update(fenced(row, 5n), nowhere, 'never'), 'missing-row')
    await ourRows.add(nowhere)
    strictEqual(await ourRows.update(fenced(row, 5n), nowhere, 'now'), 'applied')
    deepStrictEqual(await ourRows.history(nowhere), ['now'])
  })
}

function testRepeats<Tx>(check: ColumnCheck<Tx>): void {
  // A retry of a lost reply that writes again undoes what the holder itself wrote since.
  check('a repeat of a call is not applied, and every other call is', async (store) => {
    const { ourRows, theirRows, row } = store
    const lease = fenced(row, 5n)
    strictEqual(await ourRows.update(lease, row, 'a', { op: 'one' }), 'applied')
    for (const rows of [ourRows, theirRows]) {
      strictEqual(await rows.update(lease, row, 'again', { op: 'one' }), 'already-applied')
    }
    // Another process of the same lease, and calls without a name.
    strictEqual(await theirRows.update(lease, row, 'b', { op: 'two' }), 'applied')
    strictEqual(await ourRows.update(lease, row, 'c'), 'applied')
    strictEqual(await ourRows.update(lease, row, 'd'), 'applied')
    deepStrictEqual(await ourRows.history(row), ['a', 'b', 'c', 'd'])
  })

  check('the same name for a call on another row is another call', async ({ ourRows, row }) => {
    const other = `${row}:other`
    await ourRows.add(other)
    for (const one of [row, other]) {
      strictEqual(await ourRows.update(fenced(row, 5n), one, 'a', { op: 'one' }), 'applied')
    }
    deepStrictEqual(await ourRows.history(other), ['a'])
  })
}

function testRefusals<Tx>(check: ColumnCheck<Tx>): void {
  // A store that lost its data while its clock went back grants one token twice.
  check('a token that another owner wrote is a conflict', async ({ ours, ourRows, row }) => {
    await ourRows.update(fenced(row, 5n), row, 'a', { op: 'one' })
    const theirs = fenced(row, 5n, { owner: OTHER_OWNER })
    const own = await ours.begin()
    for (const how of [{ op: 'one' }, { op: 'two' }, { tx: own.tx }]) {
      await rejects(ourRows.update(theirs, row, 'never', how), (error) => {
        return error instanceof TokenConflictError && error.resource === row
      })
    }
    await own.commit()
    deepStrictEqual(await ourRows.history(row), ['a'])
  })

  // Locks were moved to another store, whose tokens began lower or higher: neither means anything.
  check('a token of another source is refused, whichever is larger', async ({ ourRows, row }) => {
    await ourRows.update(fenced(row, 50n), row, 'a', { op: 'one' })
    for (const token of [1n, 50n, 51n, TOKEN_MAX]) {
      const foreign = fenced(row, token, { source: 'suite:b' })
      await rejects(ourRows.update(foreign, row, 'never', { op: 'one' }), (error) => {
        ok(error instanceof TokenSourceError, String(error))
        return error.presented === 'suite:b' && error.recorded === 'suite:a'
      })
    }
    deepStrictEqual(await ourRows.history(row), ['a'])
  })

  check('what is not a token, an owner or a name is refused before it is sent', async (store) => {
    const { ourRows, row } = store
    const wrong: readonly Readonly<Record<string, unknown>>[] = [
      { fencingToken: 0n },
      { fencingToken: TOKEN_MAX + 1n },
      { fencingToken: 5 },
      { fencingToken: '5' },
      { owner: '' },
      { owner: `${OWNER.slice(1)}'` },
      { source: '' },
      { source: 'suite\0' },
    ]
    for (const fields of wrong) {
      const presented = { ...fenced(row, 5n), ...fields } as Fenced
      await rejects(ourRows.update(presented, row, 'never'), InvalidArgumentError)
    }
    for (const op of ['', 'a\0', 'x'.repeat(5000), '\ud800', 7 as never]) {
      await rejects(ourRows.update(fenced(row, 5n), row, 'never', { op }), InvalidArgumentError)
    }
    deepStrictEqual(await ourRows.history(row), [])
  })
}

function testOrder<Tx>(check: ColumnCheck<Tx>): void {
  // Read, then write: both find the old token, and the superseded holder writes last.
  check('of two holders that write at once the newer one has the last word', async (store) => {
    const { ourRows, theirRows } = store
    for (let round = 0; round < ROUNDS; round++) {
      const row = `${store.row}:${round}`
      await ourRows.add(row)
      const next = fenced(row, 6n, { owner: OTHER_OWNER })
      const settled = await Promise.allSettled([
        ...['a', 'b', 'c'].map((value) => ourRows.update(fenced(row, 5n), row, value)),
        theirRows.update(next, row, 'next'),
        ...['d', 'e'].map((value) => ourRows.update(fenced(row, 5n), row, value)),
      ])
      strictEqual((await ourRows.history(row)).at(-1), 'next')
      for (const one of settled) {
        if (one.status === 'rejected') ok(one.reason instanceof StaleTokenError, String(one.reason))
      }
    }
  })

  // Numbered in each process, two calls of one lease get one number, and one of two good writes is
  // dropped as a repeat.
  check('calls of one lease from two processes are all applied, each once', async (store) => {
    const { ourRows, theirRows, row } = store
    const values = Array.from({ length: ROUNDS }, (_, index) => String(index))
    const settled = await Promise.all(
      [ourRows, theirRows].flatMap((rows, side) =>
        values.map((value) => rows.update(fenced(row, 5n), row, `${side}:${value}`)),
      ),
    )
    deepStrictEqual([...new Set(settled)], ['applied'])
    const history = await ourRows.history(row)
    const expected = [0, 1].flatMap((side) => values.map((value) => `${side}:${value}`))
    deepStrictEqual([...history].sort(), expected.sort())
  })

  check('calls of one lease in one process are applied in the order of asking', async (store) => {
    const { ourRows, row } = store
    const values = Array.from({ length: 2 * ROUNDS }, (_, index) => String(index))
    await Promise.all(values.map((value) => ourRows.update(fenced(row, 5n), row, value)))
    deepStrictEqual(await ourRows.history(row), values)
  })
}

function testTransactions<Tx>(check: ColumnCheck<Tx>): void {
  check('a write in a transaction of the user stands or falls with it', async (store) => {
    const { ours, ourRows, theirRows, row } = store
    const undone = await ours.begin()
    const { tx } = undone
    strictEqual(await ourRows.update(fenced(row, 6n), row, 'undone', { tx }), 'applied')
    await undone.rollBack()
    // The token went with it.
    const kept = await ours.begin()
    const op = 'one'
    strictEqual(await ourRows.update(fenced(row, 5n), row, 'a', { tx: kept.tx, op }), 'applied')
    const again = await ourRows.update(fenced(row, 5n), row, 'never', { tx: kept.tx, op })
    strictEqual(again, 'already-applied')
    strictEqual(await ourRows.update(fenced(row, 5n), row, 'b', { tx: kept.tx }), 'applied')
    const nowhere = `${row}:nowhere`
    const missing = await ourRows.update(fenced(row, 5n), nowhere, 'never', { tx: kept.tx })
    strictEqual(missing, 'missing-row')
    deepStrictEqual(await theirRows.history(row), [])
    await kept.commit()
    deepStrictEqual(await ourRows.history(row), ['a', 'b'])
  })

  check('a write refused there leaves the transaction to the user', async (store) => {
    const { ours, ourRows, theirRows, row } = store
    await theirRows.update(fenced(row, 6n, { owner: OTHER_OWNER }), row, 'next')
    const own = await ours.begin()
    const late = ourRows.update(fenced(row, 5n), row, 'late', { tx: own.tx })
    await rejects(late, StaleTokenError)
    await ours.append(own.tx, `${row}:other`, 'still usable')
    await own.commit()
    deepStrictEqual(await ours.entries(`${row}:other`), ['still usable'])
    deepStrictEqual(await ourRows.history(row), ['next'])
  })

  check('a guarded transaction may write rows of that form too', async (store) => {
    const { ours, ourRows, row } = store
    const lease = fenced(row, 5n)
    await ours.guard.transaction(lease, async (tx) => {
      await ours.append(tx, `${row}:log`, 'entry')
      strictEqual(await ourRows.update(lease, row, 'a', { tx }), 'applied')
    })
    deepStrictEqual(await ourRows.history(row), ['a'])
  })
}

function testValidity<Tx>(check: ColumnCheck<Tx>): void {
  check('a lease that is over is refused before anything is sent', async (store) => {
    const { ours, ourRows, row } = store
    const lease = leaseFor(fenced(row, 5n), 60_000)
    strictEqual(await ourRows.update(lease, row, 'a'), 'applied')
    await lease.release()
    await rejects(ourRows.update(lease, row, 'late'), LeaseLostError)
    const own = await ours.begin()
    await rejects(ourRows.update(lease, row, 'late', { tx: own.tx }), LeaseLostError)
    await own.commit()
    deepStrictEqual(await ourRows.history(row), ['a'])
  })

  // A transaction that nobody ends keeps the row.
  check('who waits for a row that stays locked is told in time', async (store) => {
    const { ours, ourRows, row } = store
    const own = await ours.begin()
    await ourRows.update(fenced(row, 5n), row, 'a', { tx: own.tx })
    const bounded = (await store.open({ timeoutMs: VALID_MS })).column as ColumnForm<Tx>
    const plain = fenced(row, 6n, { owner: OTHER_OWNER })
    await rejects(bounded.update(plain, row, 'never'), GuardBusyError)
    await rejects(bounded.update(leaseFor(plain, VALID_MS), row, 'never'), LeaseLostError)
    await own.commit()
    strictEqual(await bounded.update(plain, row, 'next'), 'applied')
    deepStrictEqual(await ourRows.history(row), ['a', 'next'])
  })
}
