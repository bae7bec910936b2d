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
import { quoteIdentifier } from '../../clients/postgres.ts'
import type { PostgresIsolation } from './options.ts'

/** What a claim presents, all as text. */
export interface Claim {
  readonly resource: string
  readonly token: string
  readonly owner: string
  readonly op: string
  readonly source: string
}

export function claimValues(claim: Claim): string[] {
  return [claim.resource, claim.token, claim.owner, claim.op, claim.source]
}

/** Time-outs beyond this do not fit PostgreSQL's settings. Milliseconds. */
export const LIMIT_MS_MAX: number = 2 ** 31 - 1

const LIMITS = `
  SELECT set_config('idle_in_transaction_session_timeout', $1, true),
    set_config('statement_timeout', $1, true),
    set_config('lock_timeout', $1, true)`

export class Statements {
  readonly schema: string
  readonly table: string
  /**
   * Claim and draw of `seq` in one, first touch included. Arguments: resource, token, owner, op,
   * source. One row (seq) when claimed, none when refused; then the row stays locked.
   */
  readonly claim: string
  /**
   * The same claim where the row exists, which is cheaper: no speculative insertion. Same arguments,
   * same answer, but no row also means that there is none.
   */
  readonly claimExisting: string
  /** Argument: resource. One row or none. */
  readonly read: string
  readonly readLocked: string
  /** Arguments as `claim`. Overwrites whatever stands there: another source's tokens end here. */
  readonly replace: string
  /** Argument: resource. One row when there was none; waits for a transaction that is creating it. */
  readonly probe: string
  /** Makes the three statements below known to the session. */
  readonly prepare: string
  /** Under these names `claim`, `claimExisting` and the limits can be EXECUTEd. */
  readonly claimName: string
  readonly claimExistingName: string
  readonly limitsName: string

  constructor(schema: string) {
    this.schema = schema
    this.table = `${quoteIdentifier(schema)}.fences`
    const key = `WHERE f.resource = $1`
    this.claim = claimText(this.table)
    this.claimExisting = claimExistingText(this.table)
    const columns =
      'CAST(f.token AS text) AS token, f.owner, CAST(f.seq AS text) AS seq, f.op, f.source'
    this.read = `SELECT ${columns} FROM ${this.table} AS f ${key}`
    this.readLocked = `${this.read} FOR UPDATE`
    this.replace = `
      UPDATE ${this.table} AS f
      SET token = CAST($2 AS bigint), owner = $3, seq = 1, op = $4, source = $5
      ${key}`
    this.probe = `
      INSERT INTO ${this.table} (resource, token, owner, seq, op, source)
      VALUES ($1, 1, 'probe', 1, 'probe', 'probe')
      ON CONFLICT (resource) DO NOTHING
      RETURNING resource`
    // The name says which text it is, so that two guards, or two versions of this package, on one
    // connection can never execute each other's.
    const digest = createHash('sha256').update(this.claim).update(this.claimExisting).update(LIMITS)
    const suffix = digest.digest('hex').slice(0, 16)
    this.claimName = `holdfast_claim_${suffix}`
    this.claimExistingName = `holdfast_claim_existing_${suffix}`
    this.limitsName = `holdfast_limits_${suffix}`
    const types = '(text, bigint, text, text, text)'
    // In this order: whoever finds the first name taken may rely on the others.
    this.prepare = `
      PREPARE ${this.claimName} ${types} AS ${this.claim};
      PREPARE ${this.claimExistingName} ${types} AS ${this.claimExisting};
      PREPARE ${this.limitsName} (text) AS ${LIMITS};`
  }
}

function claimText(table: string): string {
  return `
    INSERT INTO ${table} AS f (resource, token, owner, seq, op, source)
    VALUES ($1, CAST($2 AS bigint), $3, 1, $4, $5)
    ON CONFLICT (resource) DO UPDATE
    SET token = EXCLUDED.token, owner = EXCLUDED.owner, op = EXCLUDED.op,
      seq = CASE WHEN f.token = EXCLUDED.token THEN f.seq + 1 ELSE 1 END
    WHERE f.source = EXCLUDED.source
      AND (f.token < EXCLUDED.token
        OR (f.token = EXCLUDED.token AND f.owner = EXCLUDED.owner AND f.op <> EXCLUDED.op))
    RETURNING CAST(f.seq AS text) AS seq`
}

function claimExistingText(table: string): string {
  return `
    UPDATE ${table} AS f
    SET token = CAST($2 AS bigint), owner = $3, op = $4,
      seq = CASE WHEN f.token = CAST($2 AS bigint) THEN f.seq + 1 ELSE 1 END
    WHERE f.resource = $1 AND f.source = $5
      AND (f.token < CAST($2 AS bigint)
        OR (f.token = CAST($2 AS bigint) AND f.owner = $3 AND f.op <> $4))
    RETURNING CAST(f.seq AS text) AS seq`
}

export function beginText(isolation: PostgresIsolation | undefined): string {
  return isolation === undefined ? 'BEGIN' : `BEGIN ISOLATION LEVEL ${isolation.toUpperCase()}`
}

/** The three time-outs as a statement of its own; `limitMs` is a positive integer. */
export function limitsText(limitMs: number): string {
  return LIMITS.replaceAll('$1', `'${limitMs}'`)
}

/** What `migrate` runs and `ddl` shows; each may run again. */
export function definitions(schema: string): readonly string[] {
  return [
    `CREATE SCHEMA IF NOT EXISTS ${quoteIdentifier(schema)}`,
    `CREATE TABLE IF NOT EXISTS ${quoteIdentifier(schema)}.fences (
  resource text COLLATE "C" PRIMARY KEY,
  token bigint NOT NULL,
  owner text NOT NULL,
  seq bigint NOT NULL,
  op text NOT NULL,
  source text NOT NULL,
  CHECK (token > 0 AND seq > 0)
) WITH (fillfactor = 50)`,
  ]
}
