import { describe, expect, it } from 'vitest'
import {
  isConnectionLoss,
  quoteIdentifier,
  quoteLiteral,
  sqlState,
  unavailable,
} from '../../../src/clients/postgres.ts'

describe('text inside a statement', () => {
  // A constant that ends early is the beginning of somebody else's statement.
  it('is plain only where no setting can change its meaning', () => {
    expect(quoteLiteral('wallet:42 {a} ~')).toBe("'wallet:42 {a} ~'")
    for (const text of ["'", '\\', 'é', '\n', '\u007f', "a'; DROP TABLE fences; --", '漢']) {
      const hex = Buffer.from(text).toString('hex')
      expect(quoteLiteral(text)).toBe(`convert_from(decode('${hex}', 'hex'), 'UTF8')`)
    }
    for (let code = 0; code < 128; code++) {
      const quoted = quoteLiteral(String.fromCharCode(code))
      if (quoted.startsWith('convert')) continue
      expect(quoted).toMatch(/^'[^'\\]'$/)
    }
  })

  it('is an identifier whatever it contains', () => {
    expect(quoteIdentifier('holdfast')).toBe('"holdfast"')
    expect(quoteIdentifier('a"b; --')).toBe('"a""b; --"')
  })
})

describe('what an error of the driver says', () => {
  it('is found by the code of the server, through what wraps it', () => {
    const error = Object.assign(new Error('x'), { code: '40001' })
    expect(sqlState(error)).toBe('40001')
    expect(sqlState(new Error('y', { cause: new Error('z', { cause: error }) }))).toBe('40001')
    expect(sqlState(Object.assign(new Error('x'), { code: 'P0001' }))).toBe('P0001')
  })

  // EPIPE has five capitals, as a code of the server may.
  it('is not taken from Node, from a number, or from nothing', () => {
    for (const code of ['EPIPE', 'EPERM', 'ECONNRESET', 40_001, undefined, '4000', 'abcde']) {
      expect(sqlState({ code })).toBeNull()
    }
    const round: { cause?: unknown } = {}
    round.cause = round
    for (const error of [null, undefined, 'text', 7, round]) expect(sqlState(error)).toBeNull()
  })

  it('tells the end of a connection from everything else', () => {
    const lost = [
      { code: '57P01' },
      { code: '25P03' },
      { code: '08006' },
      { code: 'ECONNRESET' },
      { code: 'EPIPE' },
      { message: 'Connection terminated unexpectedly' },
      { message: 'Client was closed and is not queryable' },
      new Error('wrapped', { cause: { message: 'Connection terminated' } }),
    ]
    for (const error of lost) expect(isConnectionLoss(error)).toBe(true)
    for (const error of [
      { code: '57014' },
      { code: '23505' },
      new Error('x'),
      null,
      'ECONNRESET',
    ]) {
      expect(isConnectionLoss(error)).toBe(false)
    }
  })

  it('becomes the reason of BackendUnavailableError', () => {
    const reasons: readonly [code: string, why: string][] = [
      ['57P03', 'loading'],
      ['57P01', 'down'],
      ['25006', 'read-only'],
      ['53300', 'backlog'],
      ['53200', 'out-of-memory'],
      ['53100', 'out-of-memory'],
      ['42501', 'no-permission'],
      ['28P01', 'no-permission'],
      ['ECONNREFUSED', 'down'],
      ['XX000', 'down'],
    ]
    for (const [code, why] of reasons) {
      const cause = Object.assign(new Error('the detail'), { code })
      const error = unavailable(cause, 'no connection')
      expect(error.why).toBe(why)
      expect(error.cause).toBe(cause)
      expect(error.message).toContain('no connection: the detail')
    }
  })
})
