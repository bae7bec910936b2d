import { inspect } from 'node:util'
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createClient } from 'redis'
import { createClient as createClient5 } from 'redis5'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { findFreePort } from '../../../cli/src/lab/servers/ports.ts'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import type { Locks } from '../../src/core/lease.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import type { RedisClient } from '../../src/redis.ts'
import { type Certificates, makeCertificates } from '../support/certificates.ts'
import { CAREFUL, CLIENT_NAMES, type ClientName, openInspector, until } from '../support/redis.ts'

const PASSWORD = 'a-password-of-its-own'

let certificates: Certificates
let strangers: Certificates
let server: RedisServer
let tlsPort: number
let plain: Redis
const ends: (() => unknown)[] = []

beforeAll(async () => {
  certificates = makeCertificates()
  strangers = makeCertificates()
  tlsPort = await findFreePort()
  server = await startRedis({ args: [...certificates.argsFor(tlsPort), '--requirepass', PASSWORD] })
  plain = await openInspector(server.port, PASSWORD)
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

afterAll(async () => {
  plain?.disconnect()
  await server?.stop()
  certificates?.remove()
  strangers?.remove()
})

interface Opened {
  readonly client: RedisClient
  /** What the client said of its connection. */
  readonly errors: Error[]
  isReady(): boolean
}

/** @param ca Whom the client trusts; null: it does not speak TLS. */
function open(name: ClientName, ca: string | null): Opened {
  const errors: Error[] = []
  const note = (error: Error): number => errors.push(error)
  const address = { host: '127.0.0.1', port: tlsPort }
  if (name.startsWith('ioredis')) {
    const options = { ...CAREFUL, ...address, password: PASSWORD, ...(ca ? { tls: { ca } } : {}) }
    const client = name === 'ioredis 5' ? new Redis5(options) : new Redis(options)
    client.on('error', note)
    ends.push(() => client.disconnect())
    return { client, errors, isReady: () => client.status === 'ready' }
  }
  const socket = ca === null ? address : { ...address, tls: true as const, ca }
  const options = { socket, password: PASSWORD, disableOfflineQueue: true }
  const client = name === 'node-redis 5' ? createClient5(options) : createClient(options)
  client.on('error', note)
  // It tries for ever; whoever waits for it waits for ever too.
  client.connect().catch(() => undefined)
  ends.push(() => client.destroy())
  return { client, errors, isReady: () => client.isReady }
}

/** Another program each time, as the store sees it. */
function locksOf(client: RedisClient): Locks {
  const locks = createLocksWith(systemSeams, redisBackendWith(systemSeams, client), {})
  ends.push(() => locks.close())
  return locks
}

describe.each(CLIENT_NAMES)('%s by TLS', (name) => {
  it('takes and frees locks, and a release wakes those who wait', async () => {
    const { client, isReady } = open(name, certificates.ca)
    await until(isReady, 'the client is connected')
    const lockName = `tls ${name}`
    const lease = await locksOf(client).acquire(lockName)
    const next = locksOf(client).acquire(lockName, { waitMs: 30_000 })
    // The connection for wake-ups is a duplicate, with the same TLS.
    await until(async () => {
      const [, count] = (await plain.pubsub('NUMSUB', `lock:${lockName}`)) as [string, number]
      return count > 0
    }, 'the contender listens')
    await lease.release()
    const follower = await next
    expect(follower.fencingToken).toBeGreaterThan(lease.fencingToken)
    expect(await follower.release()).toBe('released')
  })

  // The accident: a certificate that nobody trusts looked like a busy lock, or the password stood in
  // the log beside the reason.
  it.each([
    ['of a stranger', () => strangers.ca],
    ['that is not asked for', () => null],
  ])('says that it is not connected, with a certificate %s, and no secret', async (_, ca) => {
    const { client, errors } = open(name, ca())
    await until(() => errors.length > 0, 'the client has failed to connect')
    const asking = locksOf(client).acquire('refused', { waitMs: 0 })
    const failure: unknown = await asking.catch((error) => error)
    expect(failure).toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'down',
      message: expect.stringContaining('the client is not connected'),
    })
    const logged = inspect([failure, JSON.stringify(failure)], { depth: 9, showHidden: true })
    expect(logged).not.toContain(PASSWORD)
    expect(logged).not.toContain('PRIVATE KEY')
    expect(await plain.exists('lock:refused')).toBe(0)
  })
})

// What the certificate is refused for stands in the client's own error, not in ours.
it('the client says why it does not trust a certificate', async () => {
  const { errors } = open('ioredis 6', strangers.ca)
  await until(() => errors.length > 0, 'the client has failed to connect')
  expect(errors[0]?.message).toMatch(/certificate/)
})
