/**
 * A password that must be seen nowhere: each test does what goes wrong in the field, and looks through
 * everything that came out of it.
 */
import { inspect } from 'node:util'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { connectWith } from '../../src/connect/connect.ts'
import type { Locks } from '../../src/core/lease.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { onlyDriver } from '../support/connect.ts'
import { CLIENT_NAMES, openInspector, until } from '../support/redis.ts'

/** Percent-encoding gives it another form, which must not be seen either. */
const CANARY = 'kanarie 4711/ü'
const ENCODED = encodeURIComponent(CANARY)
const PARTS = [CANARY, ENCODED, 'kanarie']

let server: RedisServer
let proxy: FaultProxy
const ends: (() => unknown)[] = []
let printed = ''

beforeAll(async () => {
  server = await startRedis({ args: ['--user', 'shop', 'on', `>${CANARY}`, '~*', '&*', '+@all'] })
  proxy = await startProxy(server.port)
  for (const stream of [process.stdout, process.stderr]) {
    const spy = vi.spyOn(stream, 'write').mockImplementation((text) => {
      printed += String(text)
      return true
    })
    ends.push(() => spy.mockRestore())
  }
})

afterEach(() => {
  proxy.isRefusing = false
  proxy.heal()
})

afterAll(async () => {
  for (const end of ends) end()
  await proxy?.close()
  await server?.stop()
})

/** Everything a logger, a debugger or a crash report may show of a value. */
function everythingOf(value: unknown): string {
  const seen = new Set<unknown>()
  const found: string[] = [inspect(value, { depth: 20, showHidden: true, getters: true })]
  const visit = (one: unknown): void => {
    if (typeof one === 'string') found.push(one)
    if ((typeof one !== 'object' && typeof one !== 'function') || one === null) return
    if (seen.has(one) || seen.size > 10_000) return
    seen.add(one)
    for (const key of Reflect.ownKeys(one)) {
      const { value: below } = Object.getOwnPropertyDescriptor(one, key) ?? {}
      visit(below)
    }
  }
  visit(value)
  return found.join('\n')
}

function expectNothingOf(value: unknown): void {
  const text = everythingOf(value)
  for (const part of PARTS) expect(text).not.toContain(part)
}

const failureOf = (opening: Promise<Locks>): Promise<Error> =>
  opening.then(
    async (locks) => {
      await locks.close()
      throw new Error('connected')
    },
    (error) => error,
  )

describe.each(CLIENT_NAMES)('%s', (name) => {
  const open = (url: string, options = {}): Promise<Locks> =>
    connectWith(onlyDriver(name), url, { connectTimeoutMs: 1200, ...options })
  const as = (user: string): string => `${user}:${ENCODED}@127.0.0.1:`

  it.each<[what: string, url: () => string]>([
    ['a wrong password', () => `redis://${as('other')}${server.port}`],
    ['a refused connection', () => `redis://${as('shop')}1`],
    ['a wrong database', () => `redis://${as('shop')}${server.port}/99`],
    ['no TLS there', () => `rediss://${as('shop')}${server.port}`],
    ['no cluster', () => `redis+cluster://${as('shop')}${server.port}`],
    ['a wrong password of a cluster', () => `redis+cluster://${as('other')}${server.port}`],
    ['nobody in the cluster', () => `redis+cluster://${as('shop')}1`],
    ['nobody in the cluster by TLS', () => `rediss+cluster://${as('shop')}1`],
    ['no Sentinel', () => `redis+sentinel://${as('shop')}${server.port}/main`],
    ['nobody among the Sentinels', () => `rediss+sentinel://${as('shop')}1/main`],
    [
      'a wrong password of a Sentinel',
      () =>
        `redis+sentinel://127.0.0.1:${server.port}/main?sentinelUsername=x&sentinelPassword=${ENCODED}`,
    ],
    ['no socket', () => `redis+unix://shop:${ENCODED}@/nowhere.sock`],
  ])('%s', async (_, url) => {
    const error = await failureOf(open(url()))
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    expectNothingOf(error)
  })

  it('a connection that hangs in the middle of its handshake', async () => {
    proxy.hold('toClient')
    expectNothingOf(await failureOf(open(`redis://${as('shop')}${proxy.port}`)))
  })

  // The accident: the password is changed while the program runs, and each reconnect writes the old
  // one into the log.
  it('locks, their events, and an outage with another password after it', async () => {
    const own = await startRedis({
      args: ['--user', 'shop', 'on', `>${CANARY}`, '~*', '&*', '+@all'],
    })
    const between = await startProxy(own.port)
    const heard: unknown[] = []
    const locks = await open(`redis://${as('shop')}${between.port}`)
    try {
      for (const type of [
        'warning',
        'acquired',
        'lost',
        'renewal-failed',
        'release-failed',
      ] as const) {
        locks.on(type, (event) => heard.push(event))
      }
      const lease = await locks.acquire('a', { ttlMs: 600 })
      const inspector = await openInspector(own.port)
      await inspector.call('ACL', 'SETUSER', 'shop', 'resetpass', '>another')
      inspector.disconnect()
      between.reset()
      const isTold = (): boolean => JSON.stringify(heard, bigints).includes('does not accept')
      await until(isTold, 'the warning')
      await until(() => !lease.isHeld, 'the loss')
      expectNothingOf(await locks.tryAcquire('a').catch((error) => error))
      expectNothingOf(await lease.release().catch((error) => error))
      expectNothingOf(heard)
      expectNothingOf(locks)
      expectNothingOf(lease)
    } finally {
      await locks.close()
      await between.close()
      await own.stop()
    }
  })
})

function bigints(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? `${value}` : value
}

it('nothing of it was printed by a driver', () => {
  for (const part of PARTS) expect(printed).not.toContain(part)
})
