import { describe, expect, it } from 'vitest'
import { tokenOf } from '../../../src/wire/replies.ts'

describe('the token of a reply', () => {
  it('is an integer that a double holds, or the text of any', () => {
    expect(tokenOf(1)).toBe(1n)
    expect(tokenOf(Number.MAX_SAFE_INTEGER)).toBe(2n ** 53n - 1n)
    for (const text of ['1', '9007199254740993', '9223372036854775807']) {
      expect(tokenOf(text)).toBe(BigInt(text))
      expect(tokenOf(Buffer.from(text))).toBe(BigInt(text))
    }
  })

  // A client that reads a larger one as a double gives its neighbour, which may be an older token.
  it('is none where it may have been rounded, or is not one at all', () => {
    for (const reply of [2 ** 53, 2 ** 60, 0, -1, 1.5, Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(tokenOf(reply)).toBeNull()
    }
    for (const reply of [null, undefined, '', '0', '-1', '1.5', 'OK', '9223372036854775808', {}]) {
      expect(tokenOf(reply)).toBeNull()
    }
  })
})
