/** Wrong column forms, each refused by a property of the published suite. */
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Fenced } from '../../src/core/backend.ts'
import { postgresGuard } from '../../src/guards/postgres.ts'
import type { TestRunner } from '../../src/testkit/backend-harness.ts'
import { testGuard } from '../../src/testkit/guard-suite.ts'
import type { ColumnForm, GuardRequest } from '../../src/testkit/guard-suite-harness.ts'
import {
  isCommit,
  type OpenPostgres,
  type PostgresStand,
  startPostgresStand,
} from '../support/postgres.ts'

let stand: PostgresStand

beforeAll(async () => {
  stand = await startPostgresStand()
})

afterAll(() => stand.stop())

type Tx = pg.PoolClient
type Update = ColumnForm<Tx>['update']
/** A form of the column guard in place of the right one. */
type Wrong = (right: OpenPostgres & { column: ColumnForm<Tx> }, request: GuardRequest) => Update
type Sent = { text: string; values: unknown[] }

const NONE: Wrong = ({ column }) => column.update

/** The right guard, whose statements are changed on their way to the server. */
function sending(change: (sent: Sent) => Sent): Wrong {
  return ({ pool }, { timeoutMs, nonce }) => {
    const changed = (client: Tx) => ({
      // A driver that cannot name statements, so that each is sent as a text.
      processID: null,
      query: ((text: string, values: unknown[] = []) => {
        const sent = change({ text, values })
        return client.query(sent.text, sent.values)
      }) as Tx['query'],
    })
    const connect = async (): Promise<Tx> => {
      const client = await pool.connect()
      return Object.assign(Object.create(client), changed(client))
    }
    if (nonce !== undefined) throw new Error('no check of the column form asks for it')
    const guard = postgresGuard<Tx>({ connect } as never, { timeoutMs })
    return (lease, id, value, { op, tx } = {}) =>
      guard.update(
        lease,
        { table: 'written', where: { id }, set: { value }, op },
        tx && (changed(tx) as unknown as Tx),
      )
  }
}

/** One text that the statement must have, and what stands there instead. */
function saying(text: string, instead: string): Wrong {
  return sending((sent) => {
    const isWrite = sent.text.includes('UPDATE')
    if (isWrite && !sent.text.includes(text)) {
      // Only the statement outside of a transaction is bounded.
      if (!text.includes('lock_timeout')) throw new Error(`the statement does not say ${text}`)
    }
    return { ...sent, text: sent.text.replaceAll(text, instead) }
  })
}

let resent = 0

/** Reads the fence, decides here, and writes: what a first attempt at a guard looks like. */
const readThenWrite: Wrong =
  ({ pool }) =>
  async ({ fencingToken }, id, value) => {
    const { rows } = await pool.query('SELECT fence FROM written WHERE id = $1', [id])
    await sleep(5)
    if (BigInt(rows[0]?.fence ?? 0) > fencingToken) return 'already-applied'
    const set = `value = $2, fence = $3, fence_seq = 1, fence_owner = 'o', fence_op = 'p', fence_source = 's'`
    await pool.query(`UPDATE written SET ${set} WHERE id = $1`, [id, value, String(fencingToken)])
    return 'applied'
  }

const TOKEN = 'CAST($1 AS bigint)'

/** What is wrong, the property that must refuse it, and the guard. */
const CASES: readonly (readonly [wrong: string, property: string, guard: Wrong])[] = [
  [
    'tokens are compared as text',
    'the larger of two neighbouring tokens supersedes the smaller, exactly',
    saying(`f."fence" < ${TOKEN}`, 'CAST(f."fence" AS text) < CAST(CAST($1 AS bigint) AS text)'),
  ],
  [
    'tokens are compared as doubles',
    'the larger of two neighbouring tokens supersedes the smaller, exactly',
    saying(`f."fence" < ${TOKEN}`, `CAST(f."fence" AS float8) < CAST(${TOKEN} AS float8)`),
  ],
  [
    'the token is not kept',
    'the larger of two neighbouring tokens supersedes the smaller, exactly',
    saying(`"fence" = ${TOKEN},`, `"fence" = COALESCE(f."fence", ${TOKEN}),`),
  ],
  [
    'the owner is not compared',
    'a token that another owner wrote is a conflict',
    saying('f."fence_owner" = CAST($2 AS text)', '$2::text IS NOT NULL'),
  ],
  [
    'the source is not compared',
    'a token of another source is refused, whichever is larger',
    saying('f."fence_source" = CAST($4 AS text)', '$4::text IS NOT NULL'),
  ],
  [
    'the call is not compared',
    'a repeat of a call is not applied, and every other call is',
    saying('f."fence_op" <> CAST($3 AS text)', '$3::text IS NOT NULL'),
  ],
  [
    'a second call of a lease counts as a repeat',
    'calls of one lease from two processes are all applied, each once',
    sending(({ text, values }) => ({
      text,
      values: text.includes('UPDATE') ? values.with(2, 'the one call') : values,
    })),
  ],
  [
    'the count is not compared',
    'the second write that arrives after a later one of its lease is not applied over it',
    saying('f."fence_seq" <= CAST($5 AS bigint)', '$5::text IS NOT NULL'),
  ],
  [
    'each try has a name of its own',
    'an answer lost after the first write of a lease is settled',
    sending(({ text, values }) => ({
      text,
      values: text.includes('UPDATE') ? values.with(2, `${values[2]}:${++resent}`) : values,
    })),
  ],
  [
    'a missing row counts as written',
    'a row that is not there is told apart from one that refuses',
    ({ column }) =>
      async (...given) => {
        const answer = await column.update(...given)
        return answer === 'missing-row' ? 'applied' : answer
      },
  ],
  [
    'the fence is read before it is written',
    'of two holders that write at once the newer one has the last word',
    readThenWrite,
  ],
  [
    'tokens of another type are converted',
    'what is not a token, an owner or a name is refused before it is sent',
    ({ column }) =>
      (lease, ...rest) =>
        column.update({ ...lease, fencingToken: BigInt(lease.fencingToken) } as Fenced, ...rest),
  ],
  [
    'the transaction is another one',
    'a write in a transaction of the user stands or falls with it',
    ({ column }) =>
      (lease, row, value, { op } = {}) =>
        column.update(lease, row, value, op === undefined ? {} : { op }),
  ],
  [
    'a refusal ends the transaction',
    'a write refused there leaves the transaction to the user',
    ({ column }) =>
      async (lease, row, value, how) => {
        try {
          return await column.update(lease, row, value, how)
        } catch (error) {
          await how?.tx?.query('SELECT 1 / 0').catch(() => 'failed on purpose')
          throw error
        }
      },
  ],
  [
    'nobody asks the lease',
    'a lease that is over is refused before anything is sent',
    ({ column }) =>
      ({ lockName, fencingToken, owner, source }, ...rest) =>
        column.update({ lockName, fencingToken, owner, source }, ...rest),
  ],
  [
    'the wait for the row has no bound',
    'who waits for a row that stays locked is told in time',
    saying("set_config('lock_timeout'", "set_config('application_name'"),
  ],
  [
    'what is not known counts as written',
    'a write of the next holder leaves the outcome unknown',
    ({ column }) =>
      (...given) =>
        column.update(...given).catch((error) => {
          if (error.code === 'OUTCOME_UNKNOWN') return 'applied'
          throw error
        }),
  ],
]

async function run(wrong: Wrong, property: string): Promise<void> {
  const properties = new Map<string, Parameters<TestRunner['it']>[1]>()
  const runner: TestRunner = {
    describe: (_title, body) => body(),
    it: (title, body) => properties.set(title, body),
  }
  testGuard<Tx>(runner, {
    title: 'wrong',
    port: () => stand.server.port,
    isCommit,
    isolations: [],
    async open(request) {
      const right = await stand.open(request)
      const column = right.column as ColumnForm<Tx>
      return { ...right, column: { ...column, update: wrong({ ...right, column }, request) } }
    },
  })
  const body = properties.get(`column form: ${property}`)
  if (!body) throw new Error(`the suite has no property "${property}"`)
  await body({
    skip(reason) {
      throw new Error(`skipped: ${reason}`)
    },
  })
}

describe('the guard suite', () => {
  // A suite that lets a wrong guard pass is worse than none: its author believes it.
  it.each(CASES)('refuses a column form in which %s: %s', async (_, property, wrong) => {
    await run(NONE, property)
    // By the property itself (ERR_ASSERTION), by the guard or by the database; not by this file.
    await expect(run(wrong, property)).rejects.toMatchObject({ code: expect.any(String) })
  })

  it('leaves the column form out, by that reason, where a guard has none', async () => {
    const bodies: Parameters<TestRunner['it']>[1][] = []
    const runner: TestRunner = {
      describe: (_title, body) => body(),
      it: (title, body) => title.startsWith('column form: ') && bodies.push(body),
    }
    const reasons = new Set<string>()
    const open = async (request: GuardRequest) => {
      const { column: _none, ...rest } = await stand.open(request)
      return rest
    }
    testGuard<Tx>(runner, { title: 'none', port: () => null, isCommit, isolations: [], open })
    for (const body of bodies) await body({ skip: (reason) => reasons.add(reason) })
    expect(bodies.length).toBeGreaterThan(20)
    expect([...reasons]).toEqual(['the guard has no column form'])
  })
})
