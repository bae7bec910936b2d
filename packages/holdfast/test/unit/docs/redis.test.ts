/** What docs/backends/redis.md says that needs no server to be compared. */
import { Cluster, Redis } from 'ioredis'
import { createClient } from 'redis'
import { expect, it } from 'vitest'
import { clientOptionWarnings } from '../../../src/clients/redis-client-options.ts'
import { asRedisError } from '../../../src/clients/redis-errors.ts'
import { type LockKeys, markerKey, RedisKeys } from '../../../src/wire/keys.ts'
import { metadataOf, ownerMark, padToken } from '../../../src/wire/value.ts'
import { pageOf, tableUnder } from './pages.ts'

const page = pageOf('docs/backends/redis.md')

// The accident: the page recommends what the warning of the next version calls a mistake.
it('the recommended settings of clients are those that no warning is about', () => {
  const rows = tableUnder(page, '## Settings of the client')
  const shipped = [
    ...clientOptionWarnings(new Redis({ lazyConnect: true }), 'ioredis').map((w) => ['ioredis', w]),
    ...clientOptionWarnings(createClient(), 'node-redis').map((w) => ['node-redis', w]),
  ] as ['ioredis' | 'node-redis', { option: string; advice: string }][]
  const told = shipped.map(([client, { option, advice }]) => {
    const [, value = ''] = /^set \w+: (\S+) on the client/.exec(advice) ?? []
    return [client, option, value]
  })
  expect(rows.map((row) => row.slice(0, 3))).toEqual(told)

  const wanted = (client: string): Record<string, unknown> =>
    Object.fromEntries(
      rows
        .filter(([of]) => of === client)
        .map(([, option, value]) => [option, JSON.parse(`${value}`)]),
    )
  const ioredis = new Redis({ lazyConnect: true, ...wanted('ioredis') })
  const nodeRedis = createClient(wanted('node-redis'))
  expect(clientOptionWarnings(ioredis, 'ioredis')).toEqual([])
  expect(clientOptionWarnings(nodeRedis, 'node-redis')).toEqual([])
})

it('the recommended settings of cluster clients are those that no warning is about', () => {
  const rows = tableUnder(page, '### Settings of a cluster client')
  const nodes = [{ host: '127.0.0.1', port: 1 }]
  const shipped = clientOptionWarnings(new Cluster(nodes, { lazyConnect: true }), 'ioredis')
  const told = shipped.map(({ option = '', advice }) => {
    const [, value = ''] = /^set \w+: (\S+) on the client/.exec(advice) ?? []
    return ['ioredis', option, value]
  })
  expect(rows.map((row) => row.slice(0, 3))).toEqual(told)
  const wanted = Object.fromEntries(told.map(([, option, value]) => [option, Number(value)]))
  expect(
    clientOptionWarnings(new Cluster(nodes, { lazyConnect: true, ...wanted }), 'ioredis'),
  ).toEqual([])
})

it('the keys in a cluster are those of the table', () => {
  const rows = tableUnder(page, '### Keys in a cluster').map(([key]) => key)
  const keys = new RedisKeys('<keyPrefix>', true)
  keys.learn('', '<keyPrefix>')
  const { lock, counter, want, cancelStart } = shown(keys, '<lock name>')
  const [, tag = ''] = /\{(...)\}$/.exec(counter) ?? []
  const named = [lock, counter, want, `${cancelStart}<owner>`]
  expect(rows).toEqual(named.map((key) => key.replace(`{${tag}}`, '{<tag>}')))
})

it('refusals of the server are told as the table says', () => {
  const rows = tableUnder(page, '## When Redis refuses')
  expect(rows.length).toBeGreaterThan(4)
  for (const [answers = '', why] of rows) {
    for (const [, code] of `\`${answers}\``.matchAll(/`+([A-Z]+)`+/g)) {
      const error = asRedisError(new Error(`${code} words of the server`), 'acquire')
      expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why })
    }
  }
})

// The accident: somebody looks for a lock by the page, and finds another key.
it('the keys are those of the table', () => {
  const table = tableUnder(page, '## Keys')
  const keys = new RedisKeys('<keyPrefix>', false)
  const { lock, want, cancelStart } = shown(keys, '<lock name>')
  expect(table.map(([key]) => key)).toEqual([
    lock,
    '`<keyPrefix>#hf:token:{00}` to `{63}`',
    want,
    `${cancelStart}<owner>`,
    markerKey('<keyPrefix>'),
  ])
  const stripes = new Set<string>()
  for (let index = 0; index < 5000; index++) stripes.add(shown(keys, `name ${index}`).counter)
  expect([...stripes].sort()).toEqual(
    Array.from({ length: 64 }, (_, n) => `<keyPrefix>#hf:token:{${String(n).padStart(2, '0')}}`),
  )
})

function shown(keys: RedisKeys, lockName: string): LockKeys {
  const composed = keys.of(lockName)
  if (composed === null) throw new Error('outside a cluster keys need no prefix of the client')
  return composed
}

it('the value is laid out as the page shows it', () => {
  const shown = /^ {4}(hf1:.+)$/m.exec(page.text)?.[1] ?? ''
  const owner = 'o'.repeat(22)
  const holder = { host: '<host>', pid: 4_711, label: '<label>', value: '<value>' }
  const value = `${ownerMark(owner)}${padToken(5n)}:{"s":9${metadataOf(holder, 0)}`
  expect(value).toBe(
    shown
      .replace('<owner, 22 characters>', owner)
      .replace('<token, 19 digits>', '5'.padStart(19, '0'))
      .replace('<since, µs>', '9')
      .replace('<pid>', '4711'),
  )
})
