import { describe, expect, it } from 'vitest'
import {
  BackendUnavailableError,
  LockError,
  LockHeldError,
  NotALockError,
  OutcomeUnknownError,
} from '../../src/core/errors.ts'
import { answering, type Fault, lostRequest, refusedWith } from '../support/faulty-backend.ts'
import { openWorld, watch } from '../support/open-engine.ts'

const TTL = { ttlMs: 1000 }

/** What `acquire` rejects with when its requests meet `fault`. */
async function errorOf(fault: Fault, waitMs: number): Promise<unknown> {
  const { clock, engine } = openWorld()
  const { locks, backend } = engine()
  backend.always('tryAcquire', fault)
  const acquiring = watch(clock, locks.acquire('k', { ...TTL, waitMs }))
  await clock.advance(waitMs + 3000)
  return acquiring.error
}

describe('what stood in the way', () => {
  // B050: busy, store down, script error and time-out all arrived as one vague error, and callers
  // took its message apart.
  it('has an error of its own for each decision, with evidence', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    await ours.locks.acquire('k', { ttlMs: 60_000, label: 'nightly report' })
    for (const waitMs of [0, 700]) {
      const refused = watch(clock, theirs.locks.acquire('k', { ...TTL, waitMs }))
      await clock.advance(waitMs)
      expect(refused.error).toBeInstanceOf(LockHeldError)
      expect(refused.error).toMatchObject({
        code: 'LOCK_HELD',
        lockName: 'k',
        waitedMs: waitMs,
        holder: { label: 'nightly report', pid: process.pid },
      })
    }
    // Of the same process: known without asking the store.
    const local = watch(clock, ours.locks.acquire('k', { ...TTL, waitMs: 100 }))
    await clock.advance(100)
    expect(local.error).toMatchObject({ code: 'LOCK_HELD', holder: { label: 'nightly report' } })
  })

  for (const waitMs of [0, 100, 2500]) {
    it(`is told as it was found last, after ${waitMs} ms of waiting`, async () => {
      const down = new BackendUnavailableError('down', 'connection refused')
      expect(await errorOf(refusedWith(down), waitMs)).toBe(down)
      const reset = new Error('ECONNRESET')
      const unknown = await errorOf(refusedWith(reset), waitMs)
      expect(unknown).toBeInstanceOf(OutcomeUnknownError)
      expect(unknown).toMatchObject({ code: 'OUTCOME_UNKNOWN', cause: reset })
      expect(await errorOf(lostRequest, waitMs)).toBeInstanceOf(OutcomeUnknownError)
      const notALock = new NotALockError('lock:k', 'a list')
      expect(await errorOf(refusedWith(notALock), waitMs)).toBe(notALock)
      const forbidden = new BackendUnavailableError('no-permission', 'NOPERM')
      expect(await errorOf(refusedWith(forbidden), waitMs)).toBe(forbidden)
      const bug = new TypeError('eval is not a function')
      expect(await errorOf(refusedWith(bug), waitMs)).toBe(bug)
      const votes = [{ node: 'a', answer: 'held', elapsedMs: 3 }]
      const held = { kind: 'held', retryAfterMs: null, holder: null, votes }
      expect(await errorOf(answering(Promise.resolve(held)), waitMs)).toMatchObject({
        code: 'LOCK_HELD',
        holder: null,
        votes,
      })
    })
  }

  // What no waiting can mend was waited for: a wrong password for 30 seconds, a wrong client for ever.
  it('ends the wait at once when waiting cannot mend it, for each contender', async () => {
    for (const error of [
      new BackendUnavailableError('no-permission', 'NOPERM'),
      new NotALockError('lock:k', 'a key without a TTL'),
      new TypeError('eval is not a function'),
    ]) {
      const { clock, engine } = openWorld()
      const { locks, backend } = engine()
      backend.always('tryAcquire', refusedWith(error))
      const waiting = Array.from({ length: 100 }, () =>
        watch(clock, locks.acquire('k', { ...TTL, waitMs: Number.POSITIVE_INFINITY })),
      )
      await clock.advance(1)
      expect(waiting.every((one) => one.error === error)).toBe(true)
      expect(backend.callsOf('tryAcquire')).toHaveLength(100)
    }
  })

  // What may mend itself ended the wait at the first failure.
  it('is waited out when it may mend itself', async () => {
    for (const why of ['down', 'loading', 'read-only', 'out-of-memory', 'no-quorum'] as const) {
      const { clock, engine } = openWorld()
      const { locks, backend } = engine()
      const error = new BackendUnavailableError(why, 'for a while')
      backend.next('tryAcquire', ...[1, 2, 3].map(() => refusedWith(error)))
      const acquiring = watch(clock, locks.acquire('k', { ...TTL, waitMs: 5000 }))
      await clock.advance(1000)
      expect([why, acquiring.state]).toEqual([why, 'resolved'])
    }
  })

  it('is an error of ours with a code, or the caller’s own reason, and goes through JSON', async () => {
    const error = await errorOf(refusedWith('a text'), 0)
    expect(error).toBeInstanceOf(LockError)
    const parsed = JSON.parse(JSON.stringify(error)) as Record<string, unknown>
    expect(parsed).toMatchObject({ name: 'OutcomeUnknownError', code: 'OUTCOME_UNKNOWN' })
    expect(parsed['message']).toMatch(/a text/)
  })
})
