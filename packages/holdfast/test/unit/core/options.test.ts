import { describe, expect, it } from 'vitest'
import type { Capabilities } from '../../../src/core/capabilities.ts'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import type { AcquireOptions } from '../../../src/core/lease.ts'
import {
  checkLockName,
  checkRevoke,
  OptionReader,
  readListOptions,
} from '../../../src/core/options.ts'

const capabilities: Capabilities = {
  scope: 'network',
  fencing: 'forward-clock',
  expiry: 'wall-clock',
  lossNotice: 'before',
  order: 'queue-per-process',
  wakeUp: 'push',
  ttlMsMin: 100,
  ttlMsMax: 86_400_000,
}
const read = (options: unknown, defaults = {}) =>
  new OptionReader(capabilities, defaults).read(options as AcquireOptions)

describe('options', () => {
  it('have the documented defaults', () => {
    expect(read({})).toEqual({
      ttlMs: 30_000,
      renewDeadlineMs: 27_698,
      renewEveryMs: 10_000,
      renew: true,
      minHoldMs: 0,
      maxHoldMs: Number.POSITIVE_INFINITY,
      lockDelayMs: 0,
      label: undefined,
      value: undefined,
      waitMs: 30_000,
      signal: undefined,
    })
  })

  // `value || default` turned "do not wait" into the default wait in other libraries.
  it('take an explicit 0 for a 0', () => {
    const settings = read(
      { waitMs: 0, minHoldMs: 0, lockDelayMs: 0 },
      { waitMs: 5000, minHoldMs: 100, lockDelayMs: 100 },
    )
    expect(settings).toMatchObject({ waitMs: 0, minHoldMs: 0, lockDelayMs: 0 })
  })

  it('let undefined mean "not given"', () => {
    expect(read({ ttlMs: undefined, waitMs: undefined }, { ttlMs: 500 })).toMatchObject({
      ttlMs: 500,
      waitMs: 30_000,
    })
  })

  // A fraction of a millisecond was refused by the store and reported as contention.
  it.each([
    123.45,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    -1,
    0,
    '1000',
    2 ** 53,
    99,
    86_400_001,
    null,
  ])('refuse the ttlMs %s, naming option, value and range', (ttlMs) => {
    const failure = failureOf(() => read({ ttlMs }))
    expect(failure).toMatchObject({ code: 'INVALID_ARGUMENT', option: 'ttlMs', value: ttlMs })
    expect(failure.allowed).toContain('100 to 86400000')
    expect(failure.message).toContain('ttlMs')
  })

  it.each([
    ['waitMs', -1],
    ['waitMs', 0.5],
    ['waitMs', Number.NaN],
    ['waitMs', null],
    ['minHoldMs', -1],
    ['minHoldMs', 86_400_001],
    ['maxHoldMs', 29_999],
    ['maxHoldMs', null],
    ['lockDelayMs', 86_400_000],
    ['renewDeadlineMs', 27_699],
    ['renewDeadlineMs', 0],
    ['renewDeadlineMs', 1],
    ['renewEveryMs', 0],
    ['renewEveryMs', 30_001],
    ['renewEveryMs', 27_000],
    ['renew', 'yes'],
    ['label', 'é'.repeat(129)],
    ['label', 5],
    ['label', '\ud800'],
    ['value', 'x'.repeat(513)],
    ['signal', {}],
    ['signal', null],
  ])('refuse %s: %s', (option, value) => {
    expect(failureOf(() => read({ [option]: value }))).toMatchObject({ option, value })
  })

  it.each([null, 5, 'x', []])('refuse %s in place of options', (options) => {
    expect(failureOf(() => read(options)).option).toBe('options')
  })

  // A renewal interval above the deadline lost the lock at every interval, without a message.
  it('state the inequality that timing must keep, with the values given', () => {
    const failure = failureOf(() => read({ ttlMs: 5000, renewEveryMs: 4800 }))
    expect(failure.allowed).toContain('ttlMs > renewDeadlineMs > 1.2 * renewEveryMs')
    expect(failure.allowed).toContain('5000')
  })

  it('accept a shorter renewal deadline alone', () => {
    const { renewDeadlineMs, renewEveryMs } = read({ ttlMs: 15_000, renewDeadlineMs: 3000 })
    expect(renewDeadlineMs).toBeGreaterThan(1.2 * renewEveryMs)
    const pace = (ms: number) => read({ renewDeadlineMs: ms }).renewEveryMs
    expect([2, 3, 4, 19_999, 20_000, 27_698].map(pace)).toEqual([1, 1, 2, 9999, 10_000, 10_000])
  })

  // The message was about renewEveryMs, which the caller had not given.
  it('name the renewal deadline and its range where it alone was given', () => {
    expect(failureOf(() => read({ renewDeadlineMs: 1 }))).toMatchObject({
      ...{ option: 'renewDeadlineMs', value: 1, allowed: 'an integer from 2 to 27698' },
    })
    const every = new OptionReader(capabilities, { renewEveryMs: 5000 })
    expect(failureOf(() => every.read({ renewDeadlineMs: 6000 }))).toMatchObject({
      ...{ option: 'renewDeadlineMs', value: 6000 },
      allowed: 'an integer from 6001 to 27698, here with renewEveryMs 5000',
    })
    expect(every.read({ renewDeadlineMs: 6001 }).renewDeadlineMs).toBe(6001)
  })

  // The list of names told a caller to use what is refused there, and left out what is not.
  it('name what may stand there when a name is unknown', () => {
    const typo = { ttl: 5 } as object
    expect(failureOf(() => read(typo))).toMatchObject({ option: 'ttl', value: '(withheld)' })
    const defaults = failureOf(() => new OptionReader(capabilities, typo)).allowed
    expect(defaults).toMatch(/ttlMs, .*waitMs, clock$/)
    expect(failureOf(() => read(typo)).allowed).toMatch(/ttlMs, .*waitMs, signal$/)
    const once = () => new OptionReader(capabilities, {}).read(typo, { waitMs: 'none' })
    expect(failureOf(once).allowed).toMatch(/value, signal$/)
  })

  it('refuse wrong defaults where they are given', () => {
    expect(failureOf(() => new OptionReader(capabilities, { ttlMs: 5 })).option).toBe('ttlMs')
    const signal = { signal: new AbortController().signal } as object
    expect(failureOf(() => new OptionReader(capabilities, signal)).option).toBe('signal')
    const clock = { clock: {} } as never
    expect(failureOf(() => new OptionReader(capabilities, clock)).option).toBe('clock')
  })

  it('keep ttl and lock delay together within what the store takes', () => {
    const reader = new OptionReader({ ...capabilities, ttlMsMax: 10_000 }, { ttlMs: 8000 })
    expect(reader.read({ lockDelayMs: 2000 }).lockDelayMs).toBe(2000)
    expect(failureOf(() => reader.read({ lockDelayMs: 2001 })).option).toBe('lockDelayMs')
  })
})

describe('lock names', () => {
  it.each(['a', 'a'.repeat(512), 'wallet:42', '{tag}x', 'naïve ☃', ' ', '*?[]\\', '"'])(
    'accept %j',
    (name) => {
      expect(checkLockName(name)).toBe(name)
    },
  )

  // A list was read as characters by another library: each letter was locked, the name was not.
  it.each([
    '',
    'a'.repeat(513),
    '☃'.repeat(171),
    'a\0b',
    '#hf:token',
    ['a', 'b'],
    5,
    null,
    '\udc00',
  ])('refuse %j', (name) => {
    expect(failureOf(() => checkLockName(name)).option).toBe('lockName')
  })
})

describe('list and revoke', () => {
  it('check what they are given', () => {
    expect(readListOptions(undefined)).toEqual({ prefix: '', limit: 1000 })
    expect(failureOf(() => readListOptions({ limit: 0 })).option).toBe('limit')
    expect(failureOf(() => readListOptions({ prefix: 5 })).option).toBe('prefix')
    expect(failureOf(() => readListOptions({ prefx: 'a' })).option).toBe('prefx')
    expect(failureOf(() => checkRevoke({ fencingToken: 1n })).option).toBe('reason')
    const misspelt = failureOf(() => checkRevoke({ fencingToken: 1n, reson: 'x' }))
    expect(misspelt.option).toBe('reson')
    expect(misspelt.message).toContain('reason')
    expect(failureOf(() => checkRevoke({ fencingToken: 1, reason: 'x' })).option).toBe(
      'fencingToken',
    )
    expect(failureOf(() => checkRevoke({ reason: 'x' })).option).toBe('fencingToken')
    const both = { fencingToken: 1n, foreignOwner: 'a', reason: 'x' }
    expect(failureOf(() => checkRevoke(both)).option).toBe('foreignOwner')
  })
})

function failureOf(fn: () => unknown): InvalidArgumentError {
  try {
    fn()
  } catch (error) {
    if (error instanceof InvalidArgumentError) return error
    throw error
  }
  throw new Error('nothing was refused')
}
