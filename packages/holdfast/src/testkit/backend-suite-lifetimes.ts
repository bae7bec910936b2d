/**
 * Lifetimes: an entry lives as long as the answer said, whichever request the answer was to.
 *
 * Looked at in two ways, because a store may count wrongly what it shows rightly: from below by what
 * `inspect` says is left, and by a rival that asks until just before the end. An observation is
 * compared with the moment at which its answer was here, so a slow machine makes a comparison weaker
 * or void, never red.
 */
import { ok, strictEqual } from 'node:assert/strict'
import type { Grant, RenewResult } from '../core/backend.ts'
import { acquired, type Check, LONG_MS, request, type Store } from './backend-harness.ts'

/** Asked each time in the middle of what is left: at 1/2, 3/4 and so on to 63/64 of a life. */
const RIVALS = 6
const RENEWALS = 3
/** Long against a request, so that a life that was not lengthened is seen to be shorter. */
const BETWEEN_MS = 100
const reason = 'suite'

/** What an answer promised of an entry. */
type Life = Readonly<{ sentAtMs: number; ttlMs: number }>

export function testLifetimes(check: Check): void {
  testGrants(check)
  testRenewals(check)
  testSuccessors(check)
}

/** Virtual time costs nothing; real time has to be waited for. */
function shortMs({ clock, ttlMs }: Store): number {
  return clock ? LONG_MS : ttlMs * 4
}

function testGrants(check: Check): void {
  // A store that counts in whole seconds and rounds down gives away what is still held.
  check('an entry lives as long as its grant says', async (store) => {
    const { ours, lockName } = store
    const grant = await acquired(ours, lockName)
    await assertShown(store, grant, grant)
    const short = await acquired(ours, `${lockName}:short`, { ttlMs: shortMs(store) })
    await assertRivalsRefused(store, short, short)
  })
}

function testRenewals(check: Check): void {
  // The first renewal works and the later ones lengthen nothing: the job that runs longest shares
  // its lock with the next one, and believes itself alone.
  check('an entry lives as long as each of its renewals says', async (store) => {
    const { ours, lockName, lapse } = store
    const grant = await acquired(ours, lockName, { ttlMs: LONG_MS / 2 })
    for (let count = 0; count < RENEWALS; count++) {
      await lapse(BETWEEN_MS)
      await assertShown(store, grant, lifeOf(await ours.renew(grant, LONG_MS)))
    }
  })

  check('a rival is refused until the last renewal’s life is over', async (store) => {
    const { ours, lockName, lapse, nowMs } = store
    const ttlMs = shortMs(store)
    const grant = await acquired(ours, lockName, { ttlMs })
    let life: Life = grant
    for (let count = 0; count < RENEWALS; count++) {
      await lapse(Math.floor(ttlMs / 2))
      const renewal = await ours.renew(grant, ttlMs)
      // The machine was slow, or the entry ended before its time.
      if (renewal.kind === 'lost' && nowMs() > endsAtMs(life)) return
      life = lifeOf(renewal)
    }
    await assertRivalsRefused(store, grant, life)
  })
}

function testSuccessors(check: Check): void {
  // The next contender works on while the store, which gave it the rest of another life, lets a
  // third one in.
  check('an entry lives as long as its hand-over says', async (store, skip) => {
    const { ours, lockName, nowMs } = store
    if (!ours.handOver) return skip('the backend has no handOver')
    const before = await acquired(ours, lockName)
    const passed = await ours.handOver(before, request(lockName), true)
    if (passed.kind !== 'handed-over') throw new Error(`expected a hand-over, got ${passed.kind}`)
    await assertShown(store, passed.grant, passed.grant)
    const name = `${lockName}:short`
    const ttlMs = shortMs(store)
    const held = await acquired(ours, name, { ttlMs })
    const short = await ours.handOver(held, request(name, { ttlMs }), true)
    if (short.kind === 'not-held' && nowMs() > endsAtMs(held)) return
    if (short.kind !== 'handed-over') throw new Error(`expected a hand-over, got ${short.kind}`)
    await assertRivalsRefused(store, short.grant, short.grant)
  })

  // An operator repairs data under a lease that says a minute, and the lock is free after half.
  check('an entry lives as long as its revoke says', async (store) => {
    const { ours, theirs, lockName, nowMs } = store
    const { fencingToken } = await acquired(ours, lockName)
    const taken = await theirs.revoke(request(lockName), { fencingToken, reason })
    if (!taken) throw new Error('the holder seen was the holder')
    await assertShown(store, taken, taken)
    const name = `${lockName}:short`
    const held = await acquired(ours, name, { ttlMs: shortMs(store) })
    const seen = { fencingToken: held.fencingToken, reason }
    const short = await theirs.revoke(request(name), seen)
    if (!short && nowMs() > endsAtMs(held)) return
    if (!short) throw new Error('the holder seen was the holder')
    await assertRivalsRefused(store, short, short)
  })

  // A client resends; counted from the second request, the first one's life would be too long.
  check('no answer to a repeat promises more than what is left', async (store) => {
    const { ours, theirs, lockName, lapse } = store
    const asked = request(lockName)
    const first = await acquired(ours, lockName, asked)
    await lapse(BETWEEN_MS * 3)
    const again = await acquired(ours, lockName, asked)
    await assertShown(store, again, again)
    const next = request(lockName)
    await ours.handOver?.(first, next, true)
    await lapse(BETWEEN_MS * 3)
    const passed = await ours.handOver?.(first, next, true)
    if (passed?.kind === 'handed-over') await assertShown(store, passed.grant, passed.grant)
    const { fencingToken } = passed?.kind === 'handed-over' ? passed.grant : first
    const operator = request(lockName)
    await theirs.revoke(operator, { fencingToken, reason })
    await lapse(BETWEEN_MS * 3)
    const taken = await theirs.revoke(operator, { fencingToken, reason })
    if (taken) await assertShown(store, taken, taken)
  })
}

function lifeOf(renewal: RenewResult): Life {
  if (renewal.kind === 'lost') throw new Error(`lost: ${renewal.reason}`)
  return renewal
}

function endsAtMs({ sentAtMs, ttlMs }: Life): number {
  return sentAtMs + ttlMs
}

async function assertShown(store: Store, grant: Grant, life: Life): Promise<void> {
  const { theirs, nowMs } = store
  const seen = await theirs.inspect(grant.lockName)
  const owedMs = endsAtMs(life) - nowMs() - store.roundingMs
  if (owedMs <= 0) return
  strictEqual(seen?.fencingToken, grant.fencingToken, `it ended ${owedMs} ms before its time`)
  const remainingMs = seen.remainingMs ?? owedMs
  ok(remainingMs >= owedMs, `${remainingMs} ms remain of the ${owedMs} that are owed`)
}

async function assertRivalsRefused(store: Store, grant: Grant, life: Life): Promise<void> {
  const { theirs, lapse, nowMs } = store
  const untilMs = endsAtMs(life) - store.roundingMs
  for (let count = 0; count < RIVALS; count++) {
    await lapse(Math.max(0, Math.floor((untilMs - nowMs()) / 2)))
    const { kind } = await theirs.tryAcquire(request(grant.lockName))
    const leftMs = untilMs - nowMs()
    // Too late to tell: the store may have executed it after the end.
    if (leftMs < 0) return
    strictEqual(kind, 'held', `a rival was granted at least ${leftMs} ms before the end`)
  }
}
