/** Outside of `connect` too, a mistake with a URL or a password tells neither. */
import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { etcdBackend } from '../../../src/backends/etcd/etcd-backend.ts'
import { memoryBackend } from '../../../src/backends/memory/memory.ts'
import { redisBackend } from '../../../src/backends/redis/redis-backend.ts'
import { redlockBackend } from '../../../src/backends/redlock/redlock-backend.ts'
import { sqliteBackend } from '../../../src/backends/sqlite/sqlite-backend.ts'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { memoryGuard } from '../../../src/guards/memory/guard.ts'
import { memoryStore } from '../../../src/guards/memory/store.ts'
import { postgresGuard } from '../../../src/guards/postgres.ts'
import { sqliteGuard } from '../../../src/guards/sqlite.ts'
import { createLocks } from '../../../src/lock/lock.ts'

const URL = 'redis://:hunter2@h'
const client = { eval: async () => null, evalsha: async () => null }

test.each<[what: string, call: (wrong: never) => unknown, wrong: unknown]>([
  ['createLocks by a URL', (wrong) => createLocks(wrong), URL],
  ['createLocks by an object with one', (wrong) => createLocks(wrong), { url: URL }],
  [
    'createLocks with an unknown option',
    (wrong) => createLocks(memoryBackend(), wrong),
    { url: URL },
  ],
  [
    'createLocks with a password',
    (wrong) => createLocks(memoryBackend(), wrong),
    { pass: 'hunter2' },
  ],
  [
    'createLocks with an option that is one',
    (wrong) => createLocks(memoryBackend(), wrong),
    { [URL]: 1 },
  ],
  ['redisBackend by a URL', (wrong) => redisBackend(wrong), URL],
  ['redisBackend by one without a scheme', (wrong) => redisBackend(wrong), 'u:hunter2@h:1'],
  ['redisBackend by an object with one', (wrong) => redisBackend(wrong), { url: URL }],
  ['redisBackend by a list with one', (wrong) => redisBackend(wrong), [URL]],
  [
    'redisBackend with an option',
    (wrong) => redisBackend(client as never, wrong),
    { keyPrefix: URL.repeat(5) },
  ],
  ['redlockBackend by a URL', (wrong) => redlockBackend(wrong), URL],
  ['redlockBackend by URLs', (wrong) => redlockBackend(wrong), { a: URL }],
  ['redlockBackend by { client }', (wrong) => redlockBackend(wrong), { a: { client: URL } }],
  ['redlockBackend by names that are URLs', (wrong) => redlockBackend(wrong), { [URL]: 1 }],
  ['etcdBackend by a URL', (wrong) => etcdBackend(wrong), 'etcd://u:hunter2@h'],
  [
    'etcdBackend by an endpoint',
    (wrong) => etcdBackend(wrong),
    { endpoints: ['http://u:hunter2@h:2379'] },
  ],
  [
    'etcdBackend by one without a scheme',
    (wrong) => etcdBackend(wrong),
    { endpoints: 'u:hunter2@h:2379' },
  ],
  [
    'etcdBackend with a password',
    (wrong) => etcdBackend(wrong),
    { endpoints: ['h:1'], username: 'u', pass: 'hunter2' },
  ],
  [
    'etcdBackend with TLS options',
    (wrong) => etcdBackend(wrong),
    { endpoints: ['h:1'], tls: { passphrase: 'hunter2' } },
  ],
  ['sqliteBackend by a URL', (wrong) => sqliteBackend(wrong), URL],
  ['postgresGuard by a URL', (wrong) => postgresGuard(wrong), 'postgres://u:hunter2@h/db'],
  [
    'postgresGuard by an object with one',
    (wrong) => postgresGuard(wrong),
    { connectionString: URL },
  ],
  ['sqliteGuard by a URL', (wrong) => sqliteGuard(wrong), URL],
  ['memoryGuard by a URL', (wrong) => memoryGuard(wrong), URL],
  [
    'memoryGuard with a password',
    (wrong) => memoryGuard(memoryStore(), wrong),
    { pass: 'hunter2' },
  ],
])('%s is refused without its password', (_, call, wrong) => {
  let error: unknown
  try {
    call(wrong as never)
  } catch (caught) {
    error = caught
  }
  expect(error).toBeInstanceOf(InvalidArgumentError)
  const { message, value, option, stack } = error as InvalidArgumentError
  for (const shown of [
    message,
    option,
    stack,
    inspect(value),
    inspect(error),
    JSON.stringify(error),
  ]) {
    expect(shown).not.toContain('hunter2')
  }
})

test('a value without a secret is told, and a class in place of an object', () => {
  expect(new InvalidArgumentError('a', 'x:y', 'z')).toMatchObject({ value: 'x:y' })
  expect(new InvalidArgumentError('a', ['x', 5], 'z')).toMatchObject({ value: ['x', 5] })
  expect(new InvalidArgumentError('a', new Map(), 'z').value).toBe('an object (Map)')
  expect(new InvalidArgumentError('a', undefined, 'z').message).toBe('a is undefined, allowed: z')
})

test('a secret that was left out is undefined, and no text', () => {
  const call = (): unknown => etcdBackend({ endpoints: ['h:1'], username: 'u' })
  expect(call).toThrow('password is undefined, allowed: text, with a user name')
})
