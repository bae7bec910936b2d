/**
 * What a consumer may write, with clients of its own shape: no types of a driver are needed.
 *
 * It is compiled, never run, by the oldest compiler that is supported and by the newest ones.
 */
import {
  type AcquireOptions,
  type Backend,
  createLocks,
  type Fenced,
  fencedFromEnv,
  type Lease,
  LeaseLostError,
  LockError,
  LockHeldError,
  type Locks,
  memoryBackend,
  type Options,
  StaleTokenError,
} from 'holdfast'
import { type ConnectOptions, connect, type DriverName } from 'holdfast/connect'
import { createElection, type ElectionOptions, type Leadership, type Term } from 'holdfast/election'
import { type PgClient, type PgPool, postgresGuard } from 'holdfast/guards/postgres'
import { type RedisClient, redisBackend } from 'holdfast/redis'
import {
  createVirtualClock,
  fakeLocks,
  loseLease,
  type TestRunner,
  testBackend,
} from 'holdfast/testkit'

declare const redis: RedisClient
declare const pool: PgPool<PgClient>
declare function send(invoice: number, signal: AbortSignal): Promise<string>

const locks = createLocks(redisBackend(redis, { keyPrefix: 'app:', subscriber: false }), {
  ttlMs: 10_000,
})
const guard = postgresGuard(pool, { isolation: 'repeatable read' })

const driver: DriverName = 'node:sqlite'
const byUrl: ConnectOptions = { driver, ttlMs: 5_000, password: undefined, tls: { ca: [''] } }
export const opened: Promise<Locks> = connect('sqlite:./locks.db', byUrl)
// @ts-expect-error no such driver
export const wrongDriver: ConnectOptions = { driver: 'pg' }
// @ts-expect-error no such option
export const wrongOption: ConnectOptions = { keyPrefx: 'app:' }

/** Options that a caller passes on may hold `undefined`, under exactOptionalPropertyTypes too. */
export async function withDefaults(asked: Options<{ waitMs: number }>): Promise<Lease> {
  const options: AcquireOptions = { waitMs: asked.waitMs, label: 'invoices' }
  return locks.acquire('invoice:7', options)
}

export async function lead(stop: AbortSignal | undefined): Promise<Leadership | null> {
  const options: ElectionOptions = { ttlMs: 5_000, drainMs: undefined, label: 'mail' }
  const election = createElection(locks, 'leaders:mail', options)
  for await (const term of election.campaign({ value: undefined, signal: stop })) {
    const kept: Term = term
    await guard.transaction(term, (tx) => tx.query('update mails set sent = true'))
    await kept.proclaim('warm')
    // @ts-expect-error a term is resigned
    await term.release()
    const ended: 'released' | 'not-held' = await term.resign()
    if (ended === 'not-held' || loseLease(term, 'expired')) break
  }
  for await (const seen of election.observe({ signal: stop })) {
    if (seen !== null && seen.fencingToken > 5n) return seen
  }
  return election.leader()
}
// @ts-expect-error a candidate waits as long as it takes
export const waits: ElectionOptions = { waitMs: 5_000 }

export async function pay(): Promise<string> {
  await guard.migrate()
  return locks.using('wallet:42', { waitMs: 5_000 }, async (lease) =>
    guard.transaction(lease, async (tx) => {
      await tx.query('update wallets set balance = balance + 1 where id = $1', [42])
      return send(42, lease.signal)
    }),
  )
}

export async function nightly(signal?: AbortSignal): Promise<'done' | 'someone else'> {
  await using lease = await locks.tryAcquire('nightly', { minHoldMs: 60_000, signal })
  if (!lease) return 'someone else'
  await send(7, lease.signal)
  lease.assertValid(500)
  await lease.renew(20_000)
  const outcome: 'released' | 'not-held' = await lease.release()
  return outcome === 'released' ? 'done' : 'someone else'
}

/** One decision per error; each class shows its own fields, and `code` narrows to texts. */
export function explain(error: unknown): string {
  if (error instanceof LockHeldError) return `busy, held by ${error.holder?.host ?? 'nobody'}`
  if (error instanceof LeaseLostError) return `lost: ${error.reason} after ${error.heldMs} ms`
  if (error instanceof StaleTokenError) return `${error.presented < error.highest}`
  if (error instanceof LockError) {
    if (error.code === 'OUTCOME_UNKNOWN') return 'look before you retry'
    return error.votes?.map((vote) => vote.node).join() ?? error.code
  }
  throw error
}

export async function operate(): Promise<Fenced[]> {
  const taken: Fenced[] = []
  for await (const { lockName, fencingToken, holder } of locks.list({ prefix: 'invoice:' })) {
    if (fencingToken === null || holder === null) continue
    await using lease = await locks.revoke(lockName, { fencingToken, reason: 'it hangs' })
    if (!lease) continue
    const { seq } = await guard.claim(lease)
    if (seq > 0n) taken.push(lease)
  }
  const stop = locks.on('lost', ({ lockName, reason }) => console.error(lockName, reason))
  stop()
  await guard.transaction(fencedFromEnv({}), (tx) => tx.query('select 1'))
  const highest = await guard.highest('wallet:42')
  if (highest) console.log(highest.fencingToken + 1n, highest.source, guard.ddl)
  return taken
}

/** One row that carries the fence itself, and what a role without rights may ask. */
export async function settle(invoice: number, lease: Fenced): Promise<boolean> {
  const { problems, ddl, schemaVersion } = await guard.check(['invoices'])
  if (problems.length > 0 || schemaVersion !== 1) console.error(ddl, guard.ddlFor('invoices'))
  const set = { state: 'settled', at: new Date(), total: 5n, note: null }
  const write = { table: 'invoices', where: { id: invoice }, set, op: 'settle' }
  const answer: 'applied' | 'already-applied' | 'missing-row' = await guard.update(lease, write)
  await guard.transaction(lease, (tx) => guard.update(lease, write, tx))
  return answer !== 'missing-row'
}

/** The tests of an application, and of somebody's own backend. */
export async function rehearse(runner: TestRunner): Promise<boolean> {
  const clock = createVirtualClock()
  const lease = await fakeLocks({ clock }).acquire('a')
  await clock.advance(1_000)
  testBackend(runner, {
    title: 'my own',
    ttlMsMin: 50,
    open: async () => ({ ours: memoryBackend(), theirs: backend, close: async () => {} }),
  })
  return loseLease(lease, 'superseded')
}

/** What is known of one backend stays known: its scope is a literal, not one of three. */
export const scope: 'process' = createLocks(memoryBackend()).capabilities.scope
export const backend: Backend = locks.backend
export const anywhere: Locks = createLocks(memoryBackend())

// @ts-expect-error an option that does not exist
await locks.acquire('a', { ttl: 5 })
// @ts-expect-error tryAcquire does not wait
await locks.tryAcquire('a', { waitMs: 5 })
// @ts-expect-error the reason is not optional
await locks.revoke('a', { fencingToken: 1n })
// @ts-expect-error an unknown event
locks.on('error', () => {})
// @ts-expect-error a token is a bigint
await guard.claim({ lockName: 'a', fencingToken: 1, owner: 'b', source: 'c' })
// @ts-expect-error a write says which row it means
await guard.update(fencedFromEnv({}), { table: 'invoices', set: { state: 'settled' } })
// @ts-expect-error no lease is lost for such a reason
loseLease(await locks.acquire('a'), 'bored')
// @ts-expect-error a client without scripts
redisBackend({ get: (key: string) => key })
// @ts-expect-error the store's promise is not the caller's to make
locks.capabilities.ttlMsMax = 5

await locks.close()
