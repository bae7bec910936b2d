import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { readGuardOptions } from '../../../src/guards/postgres/options.ts'
import { Statements } from '../../../src/guards/postgres/statements.ts'
import { postgresGuard } from '../../../src/guards/postgres.ts'

describe('the options of the guard', () => {
  it('are complete with their defaults', () => {
    const { resource, ...rest } = readGuardOptions(undefined)
    const columns = {
      fence: 'fence',
      seq: 'fence_seq',
      owner: 'fence_owner',
      op: 'fence_op',
      source: 'fence_source',
    }
    expect(rest).toEqual({
      schema: 'holdfast',
      timeoutMs: 10_000,
      isolation: undefined,
      columns,
      isPipelined: false,
    })
    expect(readGuardOptions({ columns: { seq: 'n', op: undefined } }).columns).toEqual({
      ...columns,
      seq: 'n',
    })
    expect(resource('a')).toBe('a')
    expect(readGuardOptions({ schema: undefined, timeoutMs: undefined }).timeoutMs).toBe(10_000)
  })

  // What is wrong must fail where it stands, not in the first transaction of the night.
  it('are refused by name when the guard is made', () => {
    const wrong: readonly [option: string, options: unknown][] = [
      ['schema', { schema: '' }],
      ['schema', { schema: 'a\0' }],
      ['schema', { schema: 'x'.repeat(64) }],
      ['schema', { schema: 'é'.repeat(32) }],
      ['schema', { schema: '\ud800' }],
      ['schema', { schema: 7 }],
      ['timeoutMs', { timeoutMs: 99 }],
      ['timeoutMs', { timeoutMs: 600_001 }],
      ['timeoutMs', { timeoutMs: 0 }],
      ['timeoutMs', { timeoutMs: 150.5 }],
      ['timeoutMs', { timeoutMs: '1000' }],
      ['resource', { resource: 'account' }],
      ['isolation', { isolation: 'snapshot' }],
      ['isolation', { isolation: 'SERIALIZABLE; DROP TABLE x' }],
      ['schemaName', { schemaName: 'a' }],
      ['columns', { columns: 'fence' }],
      ['columns', { columns: { fence: 'fence_seq' } }],
      ['columns.fence', { columns: { fence: '' } }],
      ['columns.op', { columns: { op: 'x'.repeat(64) } }],
      ['columns.token', { columns: { token: 'a' } }],
      ['pipelined', { pipelined: 'yes' }],
      ['pipelined', { pipelined: null }],
      ['options', []],
      ['options', 'holdfast'],
    ]
    for (const [option, options] of wrong) {
      expect(() => readGuardOptions(options)).toThrow(expect.objectContaining({ option }))
    }
    // "One of" would read as if the value could be one of the names.
    const allowed = expect.stringMatching(/^no option of that name; the options are schema, /)
    expect(() => readGuardOptions({ name: 'schema' })).toThrow(expect.objectContaining({ allowed }))
    // A single client works for one call, and then looks like a server that is down.
    for (const pool of [undefined, null, {}, { connect: 1 }, new pg.Client()]) {
      expect(() => postgresGuard(pool as never)).toThrow(
        expect.objectContaining({ option: 'pool' }),
      )
    }
    expect(() => postgresGuard(new pg.Pool())).not.toThrow()
  })
})

describe('the prepared statement', () => {
  // One name for two texts: the guard of one schema would execute that of another.
  it('has a name that follows from its text', () => {
    const [one, same, other] = [new Statements('a'), new Statements('a'), new Statements('b')]
    expect(one.boundedClaim.name).toBe(same.boundedClaim.name)
    expect(one.boundedClaim.name).not.toBe(other.boundedClaim.name)
    expect(one.boundedClaim.name.length).toBeLessThanOrEqual(63)
  })
})
