import { inspect } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { connectWith } from '../../../src/connect/connect.ts'
import type { DriverSource } from '../../../src/connect/drivers.ts'
import { readRedisTarget } from '../../../src/connect/redis-target.ts'
import { SCHEMES } from '../../../src/connect/schemes.ts'
import { splitUrl } from '../../../src/connect/url.ts'
import { type ConnectOptions, connect } from '../../../src/connect.ts'
import { InvalidArgumentError } from '../../../src/core/errors.ts'

const KNOWN = Object.keys(SCHEMES)

/** Nothing of this page gets as far as a driver. */
const noDriver: DriverSource = {
  load: () => Promise.reject(new Error('a driver was asked for')),
  version: () => null,
}

function refusal(url: unknown, options?: ConnectOptions): Promise<InvalidArgumentError> {
  return connectWith(noDriver, url as string, options).then(
    () => {
      throw new Error(`${String(url)} was taken`)
    },
    (error) => {
      expect(error).toBeInstanceOf(InvalidArgumentError)
      return error
    },
  )
}

const targetOf = (url: string, kind: 'server' | 'sentinel' | 'cluster' | 'socket' = 'server') =>
  readRedisTarget(kind, false, splitUrl(url, KNOWN), {})

const host = fc.oneof(
  fc.stringMatching(/^[a-z][a-z0-9._-]{0,20}$/),
  fc.ipV4(),
  fc.constantFrom('::1', 'fe80::1', '2001:db8::8a2e:370:7334'),
)
const address = fc.record({ host, port: fc.integer({ min: 1, max: 65_535 }) })
const anyText = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 40 }).filter((text) => {
  return text.isWellFormed() && !text.includes('\0')
})
const inUrl = ({ host, port }: { host: string; port: number }): string =>
  host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`

// The accidents: a password with a colon or an "@" ends in the middle, IPv6 loses a group, and of
// several hosts only the first is taken.
it('what is written into a URL is read from it', () => {
  const parts = fc.record({
    username: fc.option(anyText, { nil: undefined }),
    password: anyText,
    addresses: fc.array(address, { minLength: 1, maxLength: 5 }),
    group: anyText,
    db: fc.integer({ min: 0, max: 999_999 }),
  })
  fc.assert(
    fc.property(parts, ({ username, password, addresses, group, db }) => {
      const user = `${encodeURIComponent(username ?? '')}:${encodeURIComponent(password)}@`
      const many = `${user}${addresses.map(inUrl).join(',')}`
      const credentials = { username, password }

      const sentinel = targetOf(
        `redis+sentinel://${many}/${encodeURIComponent(group)}/${db}`,
        'sentinel',
      )
      expect(sentinel).toMatchObject({ credentials, addresses, groupName: group, db })
      expect(targetOf(`redis+cluster://${many}`, 'cluster')).toMatchObject({
        credentials,
        addresses,
      })
      const [first = { host: '', port: 0 }] = addresses
      expect(targetOf(`redis://${user}${inUrl(first)}/${db}`)).toMatchObject({
        credentials,
        addresses: [first],
        db,
      })
    }),
    { numRuns: 500 },
  )
})

it('ports and databases have the defaults of Redis', () => {
  expect(targetOf('redis://a')).toMatchObject({ addresses: [{ host: 'a', port: 6379 }], db: 0 })
  expect(targetOf('REDIS://a/')).toMatchObject({ addresses: [{ host: 'a', port: 6379 }], db: 0 })
  // As the URL standard reads it: the last one ends the password.
  expect(targetOf('redis://:p@ss@a').credentials).toEqual({ username: undefined, password: 'p@ss' })
  const sentinels = targetOf('redis+sentinel://a,b:7/main', 'sentinel')
  expect(sentinels.addresses).toEqual([
    { host: 'a', port: 26_379 },
    { host: 'b', port: 7 },
  ])
  const socket = targetOf('redis+unix://u:p@/run/my%20redis.sock', 'socket')
  expect(socket).toMatchObject({ path: '/run/my redis.sock', db: 0, addresses: [] })
})

// The accidents: a scheme with a letter too many falls back to a default, a port that is too large
// wraps around, and a misspelt option is ignored.
describe('what is wrong is named, with what is allowed', () => {
  it.each<[url: unknown, option: string, value: unknown, allowed: RegExp]>([
    ['redsi://h', 'url', 'redsi:', /^one of memory:, .*redis:, rediss:.*redis\+cluster:/],
    ['localhost:6379', 'url', 'localhost:', /^one of memory:/],
    // An environment variable that is not set, or holds a path alone.
    ['', 'url', '', /^one of memory:/],
    ['./locks.db', 'url', '(without a scheme)', /^one of memory:, sqlite:/],
    ['user:secret@host', 'url', '(withheld)', /^one of memory:/],
    [undefined, 'url', undefined, /^text that begins with memory:/],
    [new URL('redis://h'), 'url', 'object', /^text that begins with/],
    ['redis:h', 'url', 'redis:', /\/\//],
    ['redis://h:70000', 'url port', 70_000, /1 to 65535/],
    ['redis://h:0', 'url port', 0, /1 to 65535/],
    ['redis://h/x', 'url database', 'x', /0 to 999999/],
    ['redis://h/-1', 'url database', '-1', /0 to 999999/],
    ['redis://h/1/2', 'url path', '/1/2', /a database number/],
    ['redis://', 'url host', '', /a name of letters/],
    ['redis://a b', 'url host', 'a b', /a name of letters/],
    ['redis://a,b', 'url host', 'a:6379,b:6379', /redis\+sentinel: or redis\+cluster:/],
    ['redis+sentinel://a', 'url path', '', /the name that the Sentinels give the primary/],
    ['redis+cluster://a/3', 'url path', '/3', /the database 0 alone/],
    ['redis+unix://a/b', 'url host', 'a', /none, before a path/],
    ['redis://h?colour=red', 'url query', 'colour', /keyPrefix/],
    ['redis://h?keyPrefix=a&keyPrefix=b', 'url query', 'keyPrefix', /once/],
    ['redis://h?connectTimeoutMs=1', 'connectTimeoutMs', 1, /100 to 300000/],
    ['redis://h?connectTimeoutMs=soon', 'connectTimeoutMs', 'soon', /100 to 300000/],
    ['redis://h#frag', 'url', '#', /%23/],
    ['redis://user@h', 'url password', undefined, /user:password@/],
    ['memory:here', 'url path', 'here', /memory: alone/],
    ['memory:?keyPrefix=a', 'url query', 'keyPrefix', /of memory: are connectTimeoutMs$/],
    ['sqlite:', 'url path', '', /memory:/],
    ['sqlite::memory:', 'url path', ':memory:', /for locks within one process there is memory:/],
    ['sqlite:locks/', 'url path', 'locks/', /the path of a file/],
    ['sqlite://locks.db', 'url path', '//locks.db', /sqlite:\.\/locks\.db/],
    ['sqlite:locks.db%20', 'url path', 'locks.db ', /no white space/],
    ['sqlite:locks.db%E2%80%89', 'url path', 'locks.db\u2009', /no white space/],
    ['sqlite:a%00b', 'url path', '(withheld)', /without NUL/],
    ['sqlite:a?synchronous=off', 'synchronous', 'off', /'full' or 'normal'/],
    ['sqlite:a?tablePrefix=1', 'tablePrefix', '1', /letters, digits/],
    ['sqlite:a?keyPrefix=a', 'url query', 'keyPrefix', /tablePrefix/],
  ])('%s', async (url, option, value, allowed) => {
    const error = await refusal(url)
    expect({ option: error.option, value: error.value }).toEqual({ option, value })
    expect(error.allowed).toMatch(allowed)
  })

  it.each<[options: object, option: string, allowed: RegExp]>([
    [{ keyPrefx: 'a' }, 'keyPrefx', /keyPrefix, sourceId.*ttlMs, /],
    [{ sentinelPassword: 'a' }, 'sentinelPassword', /none of that name/],
    [{ connectTimeoutMs: 1.5 }, 'connectTimeoutMs', /an integer from 100 to 300000/],
    [{ ttlMs: 99 }, 'ttlMs', /100 to 86400000/],
    [{ ttlMsMax: 1000, ttlMs: 1001 }, 'ttlMs', /100 to 1000/],
    [{ signal: 7 }, 'signal', /AbortSignal/],
    [{ onEmpty: 'hope' }, 'onEmpty', /'fresh' or 'wait'/],
    [{ username: 'a' }, 'password', /beside username/],
    [{ tls: {} }, 'tls', /rediss/],
    [{ keyPrefix: 5 }, 'keyPrefix', /text/],
    [{ tablePrefix: 'a' }, 'tablePrefix', /none of that name; the options of redis: are/],
  ])('%j', async (options, option, allowed) => {
    const error = await refusal('redis://h', options as ConnectOptions)
    expect(error.option).toBe(option)
    expect(error.allowed).toMatch(allowed)
  })

  it('of TLS', async () => {
    for (const [tls, option] of [
      [{ cacert: 'x' }, 'tls.cacert'],
      [{ ca: 5 }, 'tls.ca'],
      [{ rejectUnauthorized: 'no' }, 'tls.rejectUnauthorized'],
      ['yes', 'tls'],
      [{ cert: 'a certificate' }, 'tls'],
      [{ key: CANARY, passphrase: CANARY }, 'tls'],
    ]) {
      const error = await refusal('rediss://h', { tls } as ConnectOptions)
      expect(error.option).toBe(option)
      expect(everythingOf(error)).not.toContain(CANARY)
    }
  })

  it('of a cluster, which has no onEmpty, and of a driver of another store', async () => {
    const error = await refusal('redis+cluster://h', { onEmpty: 'wait' })
    expect(error.message).toMatch(/^onEmpty is .*none of that name/)
    const other = await connect('redis://h', { driver: 'better-sqlite3' }).catch((reason) => reason)
    expect(other.message).toMatch(/^driver is "better-sqlite3", allowed: 'ioredis' or 'redis'/)
  })
})

const CANARY = 'kanarie-4711'

/** All that a logger may show of an error. */
function everythingOf(error: Error): string {
  return [
    inspect(error, { depth: 10, showHidden: true }),
    JSON.stringify(error),
    error.stack,
  ].join()
}

describe('redlock:', () => {
  it.each<[url: string, options: ConnectOptions, option: string, allowed: RegExp]>([
    ['redlock:', {}, 'url', /followed by \/\//],
    ['redlock://a,b,', {}, 'url host', /a name of letters/],
    ['redlock://a,b,A:6379', {}, 'url host', /each node once/],
    ['redlock://a,b,c/1/2', {}, 'url path', /a database number/],
    ['redlock://a,b,c/x', {}, 'url database', /0 to 999999/],
    [`redlock://a,${'b'.repeat(60)},c`, {}, 'url host', /up to 64 characters/],
    ['redlock://a,b,c?maxTtlMs=99', { ttlMs: 100 }, 'maxTtlMs', /from 100 to 86400000/],
    ['redlock://a,b,c?maxTtlMs=long', {}, 'maxTtlMs', /from 100 to 86400000/],
    ['redlock://a,b,c?onEmpty=fresh', {}, 'url query', /the parameters of redlock: are/],
    ['redlock://a,b,c?nodeTimeoutMs=5', {}, 'nodeTimeoutMs', /from 10 to 60000/],
    ['redlock://a,b,c', { onEmpty: 'hope' as 'wait' }, 'onEmpty', /'wait', 'fresh' or 'refuse'/],
    ['redlock://a,b,c', { tls: {} }, 'tls', /redlock\+tls:/],
    ['redlock://a,b,c', { ttlMsMax: 1000 }, 'ttlMsMax', /the options of redlock: are/],
    ['redlock://a,b,c', { replicas: { count: 1 } }, 'replicas', /the options of redlock: are/],
    ['redlock://a,b,c?maxTtlMs=1000', {}, 'ttlMs', /100 to 1000/],
    ['rediss+redlock://a,b,c', {}, 'url', /redlock:, redlock\+tls:/],
  ])('%s %j', async (url, options, option, allowed) => {
    const error = await refusal(url, options)
    expect(error.option).toBe(option)
    expect(error.allowed).toMatch(allowed)
  })
})

describe('etcd:', () => {
  it.each<[url: string, options: ConnectOptions, option: string, allowed: RegExp]>([
    ['etcd:', {}, 'url', /followed by \/\//],
    ['etcd://a,a', {}, 'endpoints', /each member once/],
    ['etcd://a/locks', {}, 'url path', /one key space/],
    ['etcd://:word@a', {}, 'username', /beside the password/],
    ['etcd://a?leaseMode=none', {}, 'leaseMode', /'shared' or 'own'/],
    ['etcd://a?sourceId=x', {}, 'url query', /the parameters of etcd: are/],
    ['etcd://a', { driver: 'ioredis' }, 'driver', /the options of etcd: are/],
    ['etcd://a', { tls: {} }, 'tls', /etcd\+tls:/],
    ['etcd+tls://a', { tls: { servername: 'b' } }, 'tls.servername', /ca, cert and key alone/],
  ])('%s %j', async (url, options, option, allowed) => {
    const error = await refusal(url, options)
    expect(error.option).toBe(option)
    expect(error.allowed).toMatch(allowed)
  })
})

// The accident: a deployment with a slip in its URL writes the password into the log.
describe('an error repeats nothing in which a password may stand', () => {
  it.each([
    `redsi://user:${CANARY}@h`,
    `user:${CANARY}@h:6379`,
    CANARY,
    `redis:user:${CANARY}@h`,
    `redis://user:${CANARY}`,
    `redis://:${CANARY}`,
    `redis://:a/${CANARY}@h`,
    `redis://a/${CANARY}@h`,
    `redis://:a?${CANARY}@h`,
    `redis://:a?${CANARY}=b@h`,
    `redis://:a#${CANARY}@h`,
    `redis://:%${CANARY}@h`,
    `redis://:${CANARY}%@h`,
    `redis://${CANARY}@h`,
    `redis://:${CANARY}@h:99999`,
    `redis://:${CANARY}@h/x`,
    `redis://:${CANARY}@[::`,
    `redis://:${CANARY}@a,b`,
    `redis://:${CANARY}\n@h`,
    `redis://u:a b:${CANARY}`,
    `redis+sentinel://:${CANARY}@h`,
    `redlock://a,u:${CANARY}`,
    `etcd://a,u:${CANARY}`,
    `etcd://u:a/${CANARY}@b`,
    `redlock://:${CANARY}@a,b/x@c`,
    `redlock://:a/${CANARY}@a,b,c`,
    `redis+sentinel://h/a?sentinelPassword=${CANARY}&x=1`,
    `redis+sentinel://h/a?sentinelPasword=${CANARY}`,
    `redis+sentinel://h/a?sentinelPassword=${CANARY}=`,
    `redis+cluster://:${CANARY}@h/9`,
    `redis+unix://:${CANARY}@/`,
    `memory://:${CANARY}@h`,
    `memory:${CANARY}@h`,
  ])('%s', async (url) => {
    expect(everythingOf(await refusal(url))).not.toContain(CANARY)
  })

  it.each<object>([
    { pasword: CANARY },
    { password: { deep: CANARY } },
    { password: 5, username: CANARY },
    { username: CANARY },
    { tls: { key: CANARY } },
    { tls: { kee: CANARY } },
    { auth: { user: CANARY } },
  ])('%j', async (options) => {
    expect(everythingOf(await refusal('redis://h', options as ConnectOptions))).not.toContain(
      CANARY,
    )
  })

  it('wherever it stands', async () => {
    const junk = fc.stringMatching(/^[a-z0-9:@/?#&=,%[\] .]{0,12}$/)
    const schemes = fc.constantFrom(...KNOWN, 'redsi', 'http', '')
    await fc.assert(
      fc.asyncProperty(schemes, junk, junk, async (scheme, before, after) => {
        const url = `${scheme}:${before}:${CANARY}@${after}`
        const error = await connectWith(noDriver, url).catch((reason) => reason)
        expect(everythingOf(error)).not.toContain(CANARY)
      }),
      { numRuns: 2000 },
    )
  })
})
