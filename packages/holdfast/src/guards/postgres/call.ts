/** One guarded call: what it presents, and what every part of the guard needs to carry it out. */
import type { Driver } from '../../clients/postgres-wire.ts'
import type { Seams } from '../../core/seams.ts'
import type { Call } from '../shared/call.ts'
import { Turns } from '../shared/turns.ts'
import { Deadlines } from './deadlines.ts'
import type { GuardSettings } from './options.ts'
import { Statements } from './statements.ts'

export { type Call, callOf } from '../shared/call.ts'

/** What the guard is made of. */
export interface Parts<Tx> {
  readonly driver: Driver<Tx>
  readonly settings: GuardSettings
  readonly statements: Statements
  readonly seams: Seams
  readonly turns: Turns
  readonly deadlines: Deadlines
}

/** Two guards on one pool and schema are one guard, as far as turns go. */
const turnsOf = new WeakMap<object, Turns>()

export function partsOf<Tx>(driver: Driver<Tx>, settings: GuardSettings, seams: Seams): Parts<Tx> {
  const turns = turnsOf.get(driver.pool) ?? new Turns(seams)
  turnsOf.set(driver.pool, turns)
  const statements = new Statements(settings.schema)
  const deadlines = new Deadlines(seams)
  return { driver, settings, statements, seams, turns, deadlines }
}

/** Runs `work` when no other call of this lease runs on the same record in this process. */
export function inTurn<T>(
  { turns, statements }: Pick<Parts<unknown>, 'turns' | 'statements'>,
  { claim, bound }: Call,
  work: () => Promise<T>,
): Promise<T> {
  // No part can contain the separator, because none contains NUL.
  const key = [statements.schema, claim.owner, claim.resource].join('\0')
  return turns.run(key, claim.resource, bound, work)
}

/** Keeps the process alive: a caller waits. */
export function pause(seams: Seams, ms: number): Promise<void> {
  return new Promise((resolve) => {
    seams.after(ms, resolve, true)
  })
}
