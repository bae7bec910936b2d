import { describe, expect, it } from 'vitest'
import type { Fenced } from '../../../src/core/backend.ts'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { checkFenced, fencedFromEnv } from '../../../src/core/guard.ts'
import { parseToken, TOKEN_MAX } from '../../../src/core/token.ts'

const fenced: Fenced = {
  lockName: 'wallet:42',
  fencingToken: 2n ** 53n + 1n,
  owner: 'AAAAAAAAAAAAAAAAAAAAAA',
  source: 'redis:lock:',
}
const env = (fields: object): Record<string, string> => ({
  HOLDFAST_LEASE: JSON.stringify(fields),
})

describe('a presented lease', () => {
  it.each([0n, -1n, TOKEN_MAX + 1n, 1, 1.5, '7', Number.NaN, null, undefined])(
    'is refused with the token %s',
    (token) => {
      const wrong = { ...fenced, fencingToken: token as never }
      expect(() => checkFenced(wrong)).toThrow(InvalidArgumentError)
    },
  )

  it.each([1n, 9n, 2n ** 53n, TOKEN_MAX])('is accepted with the token %s', (fencingToken) => {
    expect(checkFenced({ ...fenced, fencingToken }).fencingToken).toBe(fencingToken)
  })

  it.each(['', 'short', 'AAAAAAAAAAAAAAAAAAAAA!', 5])('is refused with the owner %s', (owner) => {
    expect(() => checkFenced({ ...fenced, owner: owner as string })).toThrow(InvalidArgumentError)
  })

  // An owner is a secret: an error that repeats it ends up in a log.
  it('does not repeat the owner in the message', () => {
    expect(() => checkFenced({ ...fenced, owner: 'hunter2' })).toThrow(/^(?!.*hunter2)/)
    expect(() => checkFenced({ ...fenced, owner: 'hunter2' })).toThrow(
      /is "text of length 7", allowed: 22/,
    )
    expect(() => checkFenced({ ...fenced, owner: undefined as never })).toThrow(
      /^owner is undefined,/,
    )
  })
})

describe('fencedFromEnv', () => {
  // A token that went through a JSON number comes back rounded and equals the one before it.
  it('reads the token exactly, from decimal text', () => {
    const text = { ...fenced, fencingToken: '9007199254740993' }
    expect(fencedFromEnv(env(text))).toEqual({ ...fenced, fencingToken: 9007199254740993n })
  })

  it.each([
    {},
    { HOLDFAST_LEASE: '' },
    { HOLDFAST_LEASE: 'not json' },
    { HOLDFAST_LEASE: 'null' },
    env({ ...fenced, fencingToken: 2 ** 53 }),
    env({ ...fenced, fencingToken: '-1' }),
    env({ ...fenced, fencingToken: '0' }),
    env({ ...fenced, fencingToken: '1.0' }),
    env({ ...fenced, fencingToken: '1', source: '' }),
  ])('refuses %j', (bad) => {
    expect(() => fencedFromEnv(bad as Record<string, string>)).toThrow(InvalidArgumentError)
  })
})

describe('parseToken', () => {
  it.each(['', '0', '-5', '1e3', ' 7', '9223372036854775808', '99999999999999999999'])(
    'refuses %j',
    (text) => {
      expect(parseToken(text)).toBeNull()
    },
  )

  it('reads padded and unpadded digits alike', () => {
    expect(parseToken('0001796046909091000')).toBe(1796046909091000n)
    expect(parseToken('9223372036854775807')).toBe(TOKEN_MAX)
  })
})
