import { describe, expect, it } from 'vitest'
import { InvalidArgumentError } from '../../src/core/errors.ts'
import type { AcquireOptions, LocksOptions } from '../../src/core/lease.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { createVirtualClock, seamsOf } from '../../src/testkit/virtual-clock.ts'
import { gate } from '../support/faulty-backend.ts'
import { codeOf, openWorld, watch } from '../support/open-engine.ts'

/** As a caller without types would. */
const untyped = (value: unknown): never => value as never

describe('a wrong option', () => {
  const durations: unknown[] = [123.45, Number.NaN, Number.POSITIVE_INFINITY, -1, '1000', 2 ** 53]
  const wrong: [keyof AcquireOptions, unknown[]][] = [
    ['ttlMs', [...durations, 0, null, 99, 86_400_001, 40n, '30s', [1000]]],
    ['waitMs', [123.45, Number.NaN, Number.NEGATIVE_INFINITY, -1, '1000', 2 ** 53, null, '5s']],
    ['renewEveryMs', [...durations, 0, null, 27_698, 30_000, 36_000]],
    ['renewDeadlineMs', [...durations, 0, null, 27_699, 30_000, 1]],
    ['maxHoldMs', [1.5, Number.NaN, -1, 0, 29_999, '60000', null]],
    ['minHoldMs', [...durations, null]],
    ['lockDelayMs', [...durations, null]],
    ['renew', [0, 1, 'no', null]],
    ['label', [7, 'x'.repeat(257), 'é'.repeat(129), '\ud800', null]],
    ['value', ['x'.repeat(513), {}, null]],
    ['signal', [true, {}, null]],
  ]
  for (const [option, values] of wrong) {
    // B006, B011: the store refused the number, the refusal was counted as contention, and tried
    // again and again. Impossible timings hung, or lost the lock regularly, with no message.
    it(`${option} is named at once, and nothing is sent`, async () => {
      const { clock, engine } = openWorld()
      const { locks, backend } = engine()
      for (const value of values) {
        const options = untyped({ [option]: value })
        const calls = [
          locks.acquire('k', options),
          locks.tryAcquire('k', options),
          locks.using('k', options, async () => {}),
        ]
        for (const call of calls) {
          const error = await call.catch((caught: unknown) => caught)
          expect(error).toBeInstanceOf(InvalidArgumentError)
          // A triple that does not fit together may be told by any of its three.
          if (option.startsWith('renew') && option !== 'renew') {
            expect((error as Error).message).toMatch(/renew(Every|Deadline)Ms/)
          } else if (!(option === 'waitMs' && call === calls[1])) {
            expect(error).toMatchObject({ option, value })
          }
        }
      }
      expect(backend.calls).toEqual([])
      expect(clock.pendingCount).toBe(0)
    })
  }

  it('is named where defaults are given too, not at the first acquire', () => {
    const seams = seamsOf(createVirtualClock())
    const { store } = openWorld()
    for (const [option, values] of wrong) {
      if (option === 'signal') continue
      for (const value of values) {
        const defaults = untyped({ [option]: value }) as LocksOptions
        expect(() => createLocksWith(seams, store, defaults)).toThrow(InvalidArgumentError)
      }
    }
    expect(() => createLocksWith(seams, store, untyped({ retries: 3 }))).toThrow(/retries/)
  })

  // B011: a renewal interval near the deadline hung, or lost the lock regularly.
  it('of a timing that does not fit together states the inequality, and the numbers', async () => {
    const { engine } = openWorld()
    const { locks, backend } = engine()
    const misfit = { ttlMs: 30_000, renewDeadlineMs: 12_000, renewEveryMs: 10_000 }
    await expect(locks.acquire('k', misfit)).rejects.toThrow(
      /ttlMs > renewDeadlineMs > 1\.2 \* renewEveryMs.*30000 > 12000/,
    )
    expect(backend.calls).toEqual([])
    const fits = await locks.acquire('k', { ...misfit, renewEveryMs: 9999 })
    expect(fits.isHeld).toBe(true)
  })

  it('that does not exist is named, and what is allowed with it', async () => {
    const { engine } = openWorld()
    const { locks, backend } = engine()
    const given = { ttl: 1000 }
    expect(await codeOf(locks.acquire('k', untyped(given)))).toBe('INVALID_ARGUMENT')
    await expect(locks.acquire('k', untyped(given))).rejects.toThrow(/ttl is "\(withheld\)".*ttlMs/)
    expect(await codeOf(locks.tryAcquire('k', untyped({ waitMs: 5 })))).toBe('INVALID_ARGUMENT')
    expect(backend.calls).toEqual([])
  })
})

describe('a lock name', () => {
  // B008: a text where a list was meant locked every single character, and protected nothing.
  it('is one text: nothing else is taken apart or put together', async () => {
    const { store, engine } = openWorld()
    const { locks, backend } = engine()
    for (const name of [
      ['my', 'lock'],
      ['k'],
      new Set(['k']),
      7,
      null,
      undefined,
      {},
      '',
      'a\0b',
    ]) {
      expect(await codeOf(locks.acquire(untyped(name)))).toBe('INVALID_ARGUMENT')
      expect(await codeOf(locks.tryAcquire(untyped(name)))).toBe('INVALID_ARGUMENT')
      expect(await codeOf(locks.inspect(untyped(name)))).toBe('INVALID_ARGUMENT')
    }
    expect(backend.calls).toEqual([])
    const lease = await locks.acquire('my-lock-key', { ttlMs: 10_000 })
    const other = await locks.tryAcquire('yoke', { ttlMs: 10_000 })
    const names: string[] = []
    for await (const { lockName } of store.list('', 100)) names.push(lockName)
    expect(names).toEqual(['my-lock-key', 'yoke'])
    await Promise.all([lease.release(), other?.release()])
  })
})

describe('zero', () => {
  // B009: an option of 0 was read as "not given", and the default came in its place.
  it('as waitMs asks once, and answers with the store, also over a default', async () => {
    for (const options of [{ waitMs: 0 }, {}]) {
      const { clock, engine } = openWorld()
      const ours = engine()
      const theirs = engine({ defaults: { waitMs: 'waitMs' in options ? 5000 : 0 } })
      await ours.locks.acquire('k')
      const asking = gate()
      theirs.backend.next('tryAcquire', asking.fault)
      const refused = watch(clock, theirs.locks.acquire('k', options))
      await clock.advance(3)
      await asking.answer()
      await clock.advance(0)
      expect(refused.error).toMatchObject({ code: 'LOCK_HELD', waitedMs: 3 })
      expect(theirs.backend.calls.map(({ method }) => method)).toEqual(['tryAcquire'])
    }
  })

  it('as lockDelayMs or minHoldMs overrides a default', async () => {
    const { clock, engine } = openWorld()
    const defaults = { ttlMs: 1000, lockDelayMs: 5000, minHoldMs: 5000 }
    const { locks, backend } = engine({ defaults })
    const plain = await locks.acquire('plain', { lockDelayMs: 0, minHoldMs: 0 })
    await locks.acquire('kept')
    expect(backend.callsOf('tryAcquire').map(({ ttlMs }) => ttlMs)).toEqual([1000, 6000])
    await plain.release()
    expect(await locks.tryAcquire('plain', { minHoldMs: 0 })).not.toBeNull()
    await clock.advance(1)
  })

  it('as an explicit undefined means the default', async () => {
    const { engine } = openWorld()
    const { locks, backend } = engine({ defaults: { ttlMs: 7000 } })
    await locks.acquire('k', { ttlMs: undefined, waitMs: undefined, signal: undefined })
    expect(backend.calls[0]).toMatchObject({ method: 'tryAcquire', ttlMs: 7000 })
  })
})

describe('durations', () => {
  // B007: seconds were turned into milliseconds twice on their way, and a crash blocked everybody for
  // hours.
  it('reach the store in the unit of the option, by every way to give them', async () => {
    const { store, engine } = openWorld()
    const own = engine()
    const byDefault = engine({ defaults: { ttlMs: 40_000 } })
    const remaining = async (name: string): Promise<unknown> =>
      (await store.inspect(name))?.remainingMs
    await own.locks.acquire('option', { ttlMs: 40_000 })
    await own.locks.tryAcquire('try', { ttlMs: 40_000 })
    await byDefault.locks.acquire('default')
    const renewed = await own.locks.acquire('renewed', { ttlMs: 30_000 })
    await renewed.renew(40_000)
    for (const name of ['option', 'try', 'default', 'renewed']) {
      expect([name, await remaining(name)]).toEqual([name, 40_000])
    }
    await own.locks.using('using', { ttlMs: 40_000 }, async () => {
      expect(await remaining('using')).toBe(40_000)
    })
  })

  // B010: the documented value for "for ever" gave up after the first attempt.
  it('without end wait until the name is free, let others run, and end on abort', async () => {
    const { clock, engine } = openWorld()
    const ours = engine()
    const theirs = engine()
    const holder = await ours.locks.acquire('k', { ttlMs: 1000 })
    const forever = Number.POSITIVE_INFINITY
    const waiting = watch(clock, theirs.locks.acquire('k', { ttlMs: 1000, waitMs: forever }))
    const aborter = new AbortController()
    const leaving = watch(
      clock,
      theirs.locks.acquire('k', { ttlMs: 1000, waitMs: forever, signal: aborter.signal }),
    )
    await clock.advance(3_000_000)
    expect([waiting.state, leaving.state]).toEqual(['pending', 'pending'])
    aborter.abort('enough')
    await clock.advance(0)
    expect(leaving.error).toBe('enough')
    await holder.release()
    await clock.advance(20)
    expect(waiting.state).toBe('resolved')
    // JSON knows no Infinity, and turns it into null: that is refused, not read as a default.
    const fromJson = JSON.parse(JSON.stringify({ waitMs: forever })) as AcquireOptions
    expect(await codeOf(theirs.locks.acquire('k', fromJson))).toBe('INVALID_ARGUMENT')
    expect(await codeOf(theirs.locks.acquire('k', { waitMs: -1 }))).toBe('INVALID_ARGUMENT')
  })
})
