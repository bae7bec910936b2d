/**
 * Every text that the guard sends to PostgreSQL, written out for one schema.
 *
 * Table `fences`: one row for each resource, kept for ever; without its row a resource would accept
 * every token again.
 *
 *     resource  text    the record's name, compared byte by byte: a unique index on a locale's order
 *                       breaks when the operating system changes that order
 *     token     bigint  the largest fencing token that claimed; never falls within one source
 *     owner     text    whose token it is: a store that lost data can repeat a token
 *     seq       bigint  how many calls of that token were seen, drawn here and nowhere else:
 *                       counted in a process, two calls of one lease get one number, and one of two
 *                       good writes is dropped in silence
 *     op        text    which call was last, fresh for each logical call: a repeat of the same call
 *                       is told from another call of the same lease
 *     source    text    whose tokens these are: tokens of two stores do not compare
 *
 * Tokens cross the wire as decimal text, because drivers read a bigint as text, as a rounded number
 * or as a bigint, each by settings that are not ours.
 */
import { createHash } from 'node:crypto'
import type { Preparable } from '../../clients/postgres-wire.ts'
import type { PostgresIsolation } from './options.ts'
import { fencesTable } from './schema.ts'

const TIME_OUTS = ['idle_in_transaction_session_timeout', 'statement_timeout', 'lock_timeout']

/**
 * An expression that bounds the transaction by `limit`, milliseconds as text, and is never null.
 * What the session has already, by the user's or an administrator's will, is never lengthened.
 */
export function limitsExpression(limit: string, names: readonly string[] = TIME_OUTS): string {
  const bounded = names.map((name) => {
    const own = `current_setting('${name}')`
    const isLonger = `CAST(${own} AS interval) > CAST(${limit} || 'ms' AS interval)`
    const value = `CASE WHEN ${own} = '0' OR ${isLonger} THEN ${limit} ELSE ${own} END`
    return `set_config('${name}', ${value}, true)`
  })
  return bounded.join(' || ')
}

export class Statements {
  readonly schema: string
  readonly table: string
  /**
   * Claims and draws `seq` in one, first touch included. Arguments: resource, token, owner, op,
   * source. One row (seq) when claimed, none when refused; then the row stays locked.
   */
  readonly claim: string
  /**
   * The same as the first statement of a transaction of the guard's own, which it bounds, before it
   * touches the row, by a sixth argument: milliseconds as text.
   */
  readonly boundedClaim: Preparable
  /** Argument: resource. One row or none. */
  readonly read: string
  readonly readLocked: string
  /** Arguments as `claim`. Overwrites whatever stands there: another source's tokens end here. */
  readonly replace: string
  /** Argument: resource. One row when there was none; waits for a transaction that is creating it. */
  readonly probe: string

  constructor(schema: string) {
    this.schema = schema
    this.table = fencesTable(schema)
    const presented = 'CAST($1 AS text), CAST($2 AS bigint), $3, 1, $4, $5'
    this.claim = claimText(this.table, `VALUES (${presented})`)
    const bounds = `(SELECT ${limitsExpression('$6')}) IS NOT NULL`
    const text = claimText(this.table, `SELECT ${presented} WHERE ${bounds}`)
    // The name says which text it is, so that two guards, or two versions of this package, on one
    // connection can never execute each other's.
    const digest = createHash('sha256').update(text).digest('hex')
    const name = `holdfast_claim_${digest.slice(0, 16)}`
    this.boundedClaim = { name, types: '(text, bigint, text, text, text, text)', text }
    const columns =
      'CAST(f.token AS text) AS token, f.owner, CAST(f.seq AS text) AS seq, f.op, f.source'
    this.read = `SELECT ${columns} FROM ${this.table} AS f WHERE f.resource = $1`
    this.readLocked = `${this.read} FOR UPDATE`
    this.replace = `
      UPDATE ${this.table} AS f
      SET token = CAST($2 AS bigint), owner = $3, seq = 1, op = $4, source = $5
      WHERE f.resource = $1`
    this.probe = `
      INSERT INTO ${this.table} (resource, token, owner, seq, op, source)
      VALUES ($1, 1, 'probe', 1, 'probe', 'probe')
      ON CONFLICT (resource) DO NOTHING
      RETURNING resource`
  }
}

function claimText(table: string, row: string): string {
  return `
    INSERT INTO ${table} AS f (resource, token, owner, seq, op, source)
    ${row}
    ON CONFLICT (resource) DO UPDATE
    SET token = EXCLUDED.token, owner = EXCLUDED.owner, op = EXCLUDED.op,
      seq = CASE WHEN f.token = EXCLUDED.token THEN f.seq + 1 ELSE 1 END
    WHERE f.source = EXCLUDED.source
      AND (f.token < EXCLUDED.token
        OR (f.token = EXCLUDED.token AND f.owner = EXCLUDED.owner AND f.op <> EXCLUDED.op))
    RETURNING CAST(f.seq AS text) AS seq`
}

export function beginText(isolation: PostgresIsolation | undefined): string {
  return isolation === undefined ? 'BEGIN' : `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`
}

/** The three time-outs as a statement of its own; `limitMs` is a positive integer. */
export function limitsText(limitMs: number): string {
  return `SELECT ${limitsExpression(`'${limitMs}'`)}`
}
