import { describe, expect, it, vi } from 'vitest'
import * as errors from '../../../src/core/errors.ts'

const samples = [
  new errors.LockHeldError('a', 12.4, { host: 'h', pid: 1 }),
  new errors.LeaseLostError({ lockName: 'a', fencingToken: 5n, heldMs: 3.2, reason: 'expired' }),
  new errors.StaleTokenError('a', 9n, 10n),
  new errors.TokenSourceError('a', 'redis:x', 'redis:y'),
  new errors.BackendUnavailableError('loading', 'server starts'),
  new errors.OutcomeUnknownError('no answer'),
  new errors.NotALockError('lock:a', 'a hash'),
  new errors.TokenConflictError('a', 7n),
  new errors.SeqConflictError('a'),
  new errors.GuardBusyError('a', 'row locked'),
  new errors.ReentrantAcquireError('a'),
  new errors.ClosedError(),
  new errors.InvalidArgumentError('ttlMs', 0, 'an integer'),
]

describe('the errors', () => {
  it.each(samples)(
    '$code has a name, a message of its own and a stack that begins with it',
    (error) => {
      expect(error).toBeInstanceOf(errors.LockError)
      expect(error).toBeInstanceOf(Error)
      expect(error.name).toMatch(/Error$/)
      expect(error.stack).toContain(`${error.name}: ${error.message}`)
      expect(samples.filter((other) => other.code === error.code)).toHaveLength(1)
    },
  )

  // A logger that meets a bigint throws, and the error that it was to log is gone.
  it.each(samples)('$code survives JSON.stringify with its fields', (error) => {
    const json = JSON.parse(JSON.stringify(error))
    expect(json).toMatchObject({ name: error.name, message: error.message, code: error.code })
  })

  // Printed errors had `votes: undefined` in them, of stores that have one node.
  it.each(samples)('$code has no field without a value', (error) => {
    const empty = Object.keys(error).filter(
      (name) => error[name as keyof typeof error] === undefined,
    )
    expect(empty).toEqual([])
  })

  it('writes tokens as decimal strings', () => {
    const stale = new errors.StaleTokenError('a', 2n ** 53n, 2n ** 53n + 1n)
    expect(JSON.parse(JSON.stringify(stale))).toMatchObject({
      presented: '9007199254740992',
      highest: '9007199254740993',
    })
  })

  // Two versions of the package in one process: `instanceof` by prototype would be false.
  it('are known by the class of another copy of the package', async () => {
    vi.resetModules()
    const other: typeof errors = await import('../../../src/core/errors.ts')
    expect(other.LockHeldError).not.toBe(errors.LockHeldError)
    const held = new errors.LockHeldError('a', 0, null)
    expect(held).toBeInstanceOf(other.LockHeldError)
    expect(held).toBeInstanceOf(other.LockError)
    expect(held).not.toBeInstanceOf(other.LeaseLostError)
  })

  it('tells a class derived by a user from its parent', () => {
    class Mine extends errors.LockHeldError {}
    expect(new errors.LockHeldError('a', 0, null)).not.toBeInstanceOf(Mine)
    expect(new Mine('a', 0, null)).toBeInstanceOf(Mine)
    expect(new Mine('a', 0, null)).toBeInstanceOf(errors.LockHeldError)
  })

  it.each([null, undefined, 5, 'text', {}, new Error('x')])('does not take %s for one', (value) => {
    expect(value instanceof errors.LockError).toBe(false)
    expect((value as object) instanceof errors.LeaseLostError).toBe(false)
  })

  // One message for two situations that call for opposite remedies.
  it.each([
    [null, null, ''],
    [0, 0, ''],
    [0, 1999.6, ': stuck on this holder for at least 2000 ms'],
    [1, 5, ': busy but progressing, 1 hand-over seen'],
    [29, 0, ': busy but progressing, 29 hand-overs seen'],
  ])('tells progress by %s hand-overs and %s ms of one holder', (handOvers, heldForMs, end) => {
    const error = new errors.LockHeldError('a', 2000, null, { handOvers, heldForMs })
    expect(error.message).toBe(`lock "a" is held by another owner; waited 2000 ms${end}`)
    expect(error).toMatchObject({ handOvers, heldForMs })
  })

  it('keeps the cause', () => {
    const cause = new Error('socket closed')
    expect(new errors.OutcomeUnknownError('no answer', { cause }).cause).toBe(cause)
  })
})
