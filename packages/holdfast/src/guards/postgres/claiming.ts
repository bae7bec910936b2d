/**
 * The claim itself: raise the fence to the presented token and draw `seq`, in one statement under
 * the row's lock, or say why not.
 *
 * In a transaction of the guard's own it travels together with BEGIN and the time-outs, as one text
 * and one round trip: PostgreSQL keeps the three statements prepared for each connection and the text
 * EXECUTEs them. A connection that forgets them (a pooler that hands out another server session,
 * DISCARD ALL) answers 26000; from then on that connection gets plain statements.
 *
 * Rejected: SELECT, then UPDATE: the fence went back from 6 to 5, because both transactions read
 * before either wrote. Counting `seq` in the process: see statements.ts. SET LOCAL with the number in
 * its text: before PostgreSQL 17 every number is a statement of its own to pg_stat_statements, and
 * pushes the user's statements out of it.
 */
import { type PgClient, quoteLiteral, sqlState } from '../../clients/postgres.ts'
import type { Fenced } from '../../core/backend.ts'
import {
  GuardBusyError,
  StaleTokenError,
  TokenConflictError,
  TokenSourceError,
} from '../../core/errors.ts'
import { reportStale } from '../../core/guard.ts'
import type { PostgresIsolation } from './options.ts'
import type { Session } from './session.ts'
import { beginText, type Claim, claimValues, limitsText, type Statements } from './statements.ts'

/** The fence's record of one resource. */
export type FenceRow = Readonly<{
  token: bigint
  owner: string
  seq: bigint
  op: string
  source: string
}>

/** `repeat`: this very call was applied before, and `seq` is what it drew then. */
export type Claimed = Readonly<{ seq: bigint; repeat: boolean }>

/** Sends one statement with arguments, inside whatever transaction is meant. */
export type Ask = (
  text: string,
  values: string[],
) => Promise<{ readonly rows: readonly Readonly<Record<string, unknown>>[] }>

export function readRow(row: Readonly<Record<string, unknown>> | undefined): FenceRow | null {
  if (row === undefined) return null
  const { token, owner, seq, op, source } = row
  return {
    token: BigInt(String(token)),
    owner: String(owner),
    seq: BigInt(String(seq)),
    op: String(op),
    source: String(source),
  }
}

/** What a claim's statement answered; null: no row, so nothing was applied. */
function drawnSeq(row: Readonly<Record<string, unknown>> | undefined): bigint | null {
  return row === undefined ? null : BigInt(String(row['seq']))
}

/**
 * Claims by statements of their own.
 *
 * @param isRefused The claim was made a moment ago and met no row that it may raise.
 * @throws StaleTokenError, TokenConflictError, TokenSourceError, GuardBusyError: nothing was applied.
 */
export async function claimByParts(
  ask: Ask,
  statements: Statements,
  claim: Claim,
  fenced: Fenced,
  isRefused = false,
): Promise<Claimed> {
  // No row, or one that changed after the refusal: asked once more.
  for (let tries = 0; tries < 2; tries++) {
    if (!isRefused || tries > 0) {
      const seq = drawnSeq((await ask(statements.claim, claimValues(claim))).rows[0])
      if (seq !== null) return { seq, repeat: false }
    }
    const row = readRow((await ask(statements.read, [claim.resource])).rows[0])
    const seq = row && repeatOrRefusal(row, claim, fenced)
    if (seq !== null) return { seq, repeat: true }
  }
  throw new GuardBusyError(claim.resource, 'its record changed each time it was read')
}

/**
 * Why a claim met no row that it may raise, in this order. Null: it may now.
 *
 * @returns The `seq` that this call drew when it was applied before.
 */
function repeatOrRefusal(row: FenceRow, claim: Claim, fenced: Fenced): bigint | null {
  const { resource } = claim
  const { fencingToken } = fenced
  if (row.source !== claim.source) throw new TokenSourceError(resource, claim.source, row.source)
  if (row.token > fencingToken) {
    reportStale(fenced, resource, row.token)
    throw new StaleTokenError(resource, fencingToken, row.token)
  }
  if (row.token < fencingToken) return null
  if (row.owner !== claim.owner) throw new TokenConflictError(resource, fencingToken)
  return row.op === claim.op ? row.seq : null
}

/**
 * How a connection takes the claim: `new` has never met the statements, `prepared` has them, `plain`
 * forgets them. By the statements' own name, because two guards may share a connection.
 */
type Form = 'new' | 'prepared' | 'plain'
const forms = new WeakMap<PgClient, Map<string, Form>>()

function formOf(client: PgClient, name: string): Form {
  return forms.get(client)?.get(name) ?? 'new'
}

function setForm(client: PgClient, name: string, form: Form): void {
  const own = forms.get(client) ?? new Map<string, Form>()
  forms.set(client, own.set(name, form))
}

const STATEMENT_EXISTS = '42P05'
const STATEMENT_MISSING = '26000'

export interface Opening {
  readonly session: Session<PgClient>
  readonly statements: Statements
  readonly isolation: PostgresIsolation | undefined
  readonly claim: Claim
  readonly fenced: Fenced
  readonly limitMs: number
  /** A bound for each answer: the server's own time-outs come before it. */
  readonly answerMs: number
  /** Resources that are known to have a row, which the cheaper statement needs. */
  readonly known: KnownResources
}

/** Begins a transaction with its time-outs and claims in it. */
export async function beginAndClaim(opening: Opening): Promise<Claimed> {
  const { session, statements, claim, fenced, known } = opening
  const { seq, isRefused } = await begin(opening)
  const ask: Ask = (text, values) => session.send(text, values, opening.answerMs)
  const claimed =
    seq === null
      ? await claimByParts(ask, statements, claim, fenced, isRefused)
      : { seq, repeat: false }
  known.add(claim.resource)
  return claimed
}

type Begun = Readonly<{ seq: bigint | null; isRefused: boolean }>

/** @returns A null `seq` when a transaction was begun and nothing is claimed in it yet. */
async function begin(opening: Opening): Promise<Begun> {
  const { session, statements, claim } = opening
  const name = statements.claimName
  for (;;) {
    const form = formOf(session.client, name)
    // Without a row the cheaper statement answers like a refusal.
    const isKnown = opening.known.has(claim.resource)
    const text = beginning(opening, form, isKnown)
    try {
      const answer = await session.send(text, undefined, opening.answerMs)
      if (form === 'plain') return { seq: null, isRefused: false }
      setForm(session.client, name, 'prepared')
      return { seq: drawnSeq(answer.rows[0]), isRefused: !isKnown }
    } catch (error) {
      const next = nextForm(form, sqlState(error))
      if (next === null) throw error
      setForm(session.client, name, next)
      await session.send('ROLLBACK', undefined, opening.answerMs)
    }
  }
}

/** Each form is left at most once, never for an earlier one, so that `begin` comes to an end. */
function nextForm(form: Form, state: string | null): Form | null {
  if (form === 'new' && state === STATEMENT_EXISTS) return 'prepared'
  return form === 'prepared' && state === STATEMENT_MISSING ? 'plain' : null
}

function beginning(opening: Opening, form: Form, isKnown: boolean): string {
  const { statements, claim, limitMs } = opening
  const begin = beginText(opening.isolation)
  if (form === 'plain') return `${begin}; ${limitsText(limitMs)}`
  const prepare = form === 'new' ? statements.prepare : ''
  const limits = `EXECUTE ${statements.limitsName}('${limitMs}')`
  const name = isKnown ? statements.claimExistingName : statements.claimName
  const values = claimValues(claim).map(quoteLiteral).join(', ')
  return `${begin}; ${prepare} ${limits}; EXECUTE ${name}(${values})`
}

const KNOWN_MAX = 10_000

/** Resources that had a row when last seen. Forgetting one costs nothing but the cheaper statement. */
export class KnownResources {
  readonly #names = new Set<string>()

  has(resource: string): boolean {
    return this.#names.has(resource)
  }

  add(resource: string): void {
    if (this.#names.size >= KNOWN_MAX && !this.#names.has(resource)) this.#names.clear()
    this.#names.add(resource)
  }
}
