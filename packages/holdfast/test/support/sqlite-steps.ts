/**
 * A program that does each thing that writes to a lock table once, each on a name of its own, and
 * what may be found of it after it was killed in the middle.
 *
 * It says in a file what it begins and what has ended, so that of each step it is known whether it
 * must be there, must not be there, or may be either; never half of it.
 */
import { expect } from 'vitest'
import type { SqliteDatabase } from '../../src/clients/sqlite.ts'
import type { AcquireRequest, Backend, Grant } from '../../src/core/backend.ts'
import { request } from '../../src/testkit/backend-harness.ts'

/** Longer than any test. */
export const TTL_MS = 3_600_000
export const LONGER_TTL_MS = 36_000_000
/** Above what the clock gives: tokens are on the scale of microseconds since 1970. */
export const RAISED_TO: bigint = 2n ** 61n

/** 22 characters, as owners have; readable in a failure. */
const named = (what: string): string => what.padEnd(22, '-')

export function stepRequest(lockName: string, owner: string): AcquireRequest {
  return request(lockName, { owner: named(owner), ttlMs: TTL_MS, waiter: named('waiter') })
}

/** In this order; each begins with its name held, but the first. */
export const STEPS = [
  'acquire',
  'renew',
  'proclaim',
  'hand-over',
  'revoke',
  'cancel',
  'wait',
  'release',
  'rest',
  'raise',
] as const
export type Step = (typeof STEPS)[number]

/** The grants that the steps begin with. */
export async function prepareSteps(backend: Backend): Promise<Record<string, Grant>> {
  const grants: Record<string, Grant> = {}
  for (const name of STEPS.slice(1)) {
    const result = await backend.tryAcquire(stepRequest(name, name))
    if (result.kind !== 'granted') throw new Error(`"${name}" is held in a new file`)
    grants[name] = result.grant
  }
  return grants
}

/** The child's: `backend`, `grants` and `note(value)` stand before it. */
export const STEPS_TEXT: string = `
const owner = (what) => what.padEnd(22, '-')
const request = (lockName, who, waits = false) => ({
  lockName, owner: owner(who), ttlMs: ${TTL_MS}, timeoutMs: 10000, lockDelayMs: 0, waits,
  waiter: owner('waiter'), holder: { host: 'h', pid: process.pid }, onLost() {},
})
const steps = {
  acquire: () => backend.tryAcquire(request('acquire', 'acquire')),
  renew: () => backend.renew(grants.renew, ${LONGER_TTL_MS}),
  proclaim: () => backend.proclaim(grants.proclaim, 'new'),
  'hand-over': () => backend.handOver(grants['hand-over'], request('hand-over', 'next'), true),
  revoke: () => backend.revoke(request('revoke', 'operator'),
    { fencingToken: grants.revoke.fencingToken, reason: 'test' }),
  cancel: () => backend.cancel('cancel', owner('cancel')),
  wait: () => backend.tryAcquire(request('wait', 'second', true)),
  release: () => backend.release(grants.release, 0),
  rest: () => backend.release(grants.rest, ${TTL_MS}),
  raise: () => backend.raise('raise', ${RAISED_TO}n),
}
for (const [name, step] of Object.entries(steps)) {
  note('begun ' + name)
  await step()
  note('ended ' + name)
}
note('done')
`

/** What is known of a step: `may` be done if it had begun and not ended. */
function knownOf(notes: readonly string[], step: Step): 'not' | 'may' | 'done' {
  if (notes.includes(`ended ${step}`)) return 'done'
  return notes.includes(`begun ${step}`) ? 'may' : 'not'
}

/**
 * Whether each step is done as a whole or not at all, and done if its end was told.
 *
 * @param backend On the file as the killed program left it.
 */
export async function judgeSteps(
  backend: Backend,
  grants: Record<string, Grant>,
  notes: readonly string[],
): Promise<void> {
  const holderOf = async (name: Step): Promise<string | null> => {
    const info = await backend.inspect(name)
    if (info === null) return null
    const own = grants[name]?.fencingToken
    return info.fencingToken === own ? 'old' : 'new'
  }
  const is = (step: Step, isDone: boolean): void => {
    const known = knownOf(notes, step)
    if (known !== 'may') expect(isDone, `${step} is done`).toBe(known === 'done')
  }
  is('acquire', (await holderOf('acquire')) !== null)
  const renewed = await backend.inspect('renew')
  expect(renewed?.remainingMs, 'of the renewed').toBeGreaterThan(0)
  is('renew', (renewed?.remainingMs ?? 0) > TTL_MS)
  expect(await holderOf('proclaim')).toBe('old')
  is('proclaim', (await backend.inspect('proclaim'))?.holder?.value === 'new')
  // Never free in between: released and granted is one step.
  expect(await holderOf('hand-over'), 'the handed over').not.toBeNull()
  is('hand-over', (await holderOf('hand-over')) === 'new')
  expect(await holderOf('revoke'), 'the revoked').not.toBeNull()
  is('revoke', (await holderOf('revoke')) === 'new')
  expect(await holderOf('wait'), 'what another waits for').toBe('old')
  is('release', (await holderOf('release')) === null)
  is('rest', (await holderOf('rest')) === null)
  await judgeCancelled(backend, grants, is)
  const next = await backend.tryAcquire(stepRequest('raised', 'raised'))
  if (next.kind !== 'granted') throw new Error('a name of nobody is held')
  is('raise', next.grant.fencingToken > RAISED_TO)
}

/**
 * Whether the rows of one step came together: an owner is cancelled exactly where its entry is gone, and
 * no token was drawn that nobody got. The backend alone does not tell, where it reads around a half.
 */
export function judgeRows(db: SqliteDatabase): void {
  const [cancelled, kept, tombstone, revoked] = [
    db.prepare(CANCELLED).get(named('cancel')),
    db.prepare(HELD).get(named('cancel')),
    db.prepare(CANCELLED).get(named('revoke')),
    db.prepare(HELD).get(named('operator')),
  ].map((row) => row !== undefined)
  expect(cancelled, 'the cancelled owner, and its entry').not.toBe(kept)
  expect(tombstone, 'the owner that an operator took over from').toBe(revoked)
  const { counter, highest } = db.prepare(TOKENS).get() as Record<string, string>
  expect([highest, String(RAISED_TO)], 'the counter').toContain(counter)
}

const CANCELLED = 'SELECT 1 FROM holdfast_cancelled WHERE owner = ?'
const HELD = 'SELECT 1 FROM holdfast_locks WHERE owner = ?'
const TOKENS = `SELECT CAST(counter AS TEXT) AS counter,
  (SELECT CAST(max(fencing_token) AS TEXT) FROM holdfast_locks) AS highest FROM holdfast_meta`

/** B5: gone and never granted again, or as before. */
async function judgeCancelled(
  backend: Backend,
  grants: Record<string, Grant>,
  is: (step: Step, isDone: boolean) => void,
): Promise<void> {
  const isGone = (await backend.inspect('cancel')) === null
  is('cancel', isGone)
  const again = await backend.tryAcquire(stepRequest('cancel', 'cancel'))
  if (isGone) expect(again.kind, 'the cancelled owner').toBe('held')
  else expect(again).toMatchObject({ grant: { fencingToken: grants['cancel']?.fencingToken } })
}
