import { expect, it } from 'vitest'
import { Keys } from '../../../src/backends/etcd/keys.ts'
import { type EtcdOptions, readEtcdOptions } from '../../../src/backends/etcd/options.ts'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { etcdBackend } from '../../../src/etcd.ts'

const endpoints = ['a:2379']

// A wrong option that is found at the first lock is found in production.
it.each<[options: object | null, option: string, allowed: RegExp]>([
  [null, 'options', /an object/],
  [{}, 'endpoints', /1 to 32 members/],
  [{ endpoints: [] }, 'endpoints', /1 to 32 members/],
  [{ endpoints: 'a:2379' }, 'endpoints', /1 to 32 members/],
  [{ endpoints: ['http://a:2379'] }, 'endpoints', /without a scheme/],
  [{ endpoints: ['a'] }, 'endpoints', /"host:port"/],
  [{ endpoints: ['a:0'] }, 'endpoints', /"host:port"/],
  [{ endpoints: ['a:65536'] }, 'endpoints', /"host:port"/],
  [{ endpoints: ['a:1', 'a:1'] }, 'endpoints', /each member once/],
  [{ endpoints, leaseMode: 'mine' }, 'leaseMode', /'shared' or 'own'/],
  [{ endpoints, keyPrefix: 'x'.repeat(65) }, 'keyPrefix', /64 bytes/],
  [{ endpoints, username: 'a' }, 'password', /with a user name/],
  [{ endpoints, password: 'a' }, 'username', /with a password/],
  [{ endpoints, tls: { ca: 'text' } }, 'tls.ca', /the bytes/],
  [{ endpoints, tls: { cert: Buffer.from('a') } }, 'tls', /both cert and key/],
  [{ endpoints, endpoint: 'a' }, 'endpoint', /endpoints/],
])('%j is refused: %s', (options, option, allowed) => {
  let error: unknown
  try {
    etcdBackend(options as EtcdOptions)
  } catch (thrown) {
    error = thrown
  }
  expect(error).toBeInstanceOf(InvalidArgumentError)
  expect(error).toMatchObject({ option, allowed: expect.stringMatching(allowed) })
})

it('a password is in no message', () => {
  const wrong = { endpoints, password: 'never-to-be-seen', leaseMode: 'mine' as 'own' }
  expect(() => readEtcdOptions(wrong)).toThrow(/^(?!.*never-to-be-seen)/)
  expect(() => readEtcdOptions({ ...wrong, leaseMode: 'own' })).toThrow(/^(?!.*never-to-be-seen)/)
})

it('a name comes back from its keys, whatever is in it', () => {
  const keys = new Keys('app/')
  for (const name of ['a', 'a/b', 'a%2Fb', '%', '%25', '/', 'ü/%']) {
    const owner = 'x'.repeat(22)
    const key = keys.placeKey(name, 'ff', owner)
    expect(keys.readKey(key)).toEqual({ lockName: name, place: { kind: 'ours', owner } })
    const { key: start, range_end } = keys.rangeOf(name)
    expect(Buffer.compare(start, key) < 0 && Buffer.compare(key, range_end) < 0).toBe(true)
  }
  expect(keys.readKey(Buffer.from('app/#hf:base'))).toBeNull()
  expect(keys.readKey(Buffer.from('other/a/ff'))).toBeNull()
  expect(keys.readKey(Buffer.from('app/a/ff'))?.place).toEqual({ kind: 'foreign', shown: 'ff' })
})
