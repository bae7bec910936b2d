import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Lease, Locks } from '../../src/core/lease.ts'
import type { ProxyConnection } from '../../src/testkit/proxy.ts'
import { allKeys, CLIENT_NAMES, keysWithoutTtl, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
/** As many as this, and on a slow machine more, until enough was done amid them. */
const DISCONNECTS = 110
const DISCONNECTS_MAX = 440
const SECTIONS_AMID = 10
const PROCESSES = 8

async function scriptCalls(): Promise<number> {
  const stats = await stand.redis.info('commandstats')
  const counts = [...stats.matchAll(/cmdstat_evalsha?:calls=(\d+)/g)]
  return counts.reduce((sum, [, count]) => sum + Number(count), 0)
}

/** The history in the store: who came in and who went out, in the order in which it happened. */
async function note(what: 'in' | 'out', { fencingToken }: Lease): Promise<void> {
  await stand.redis.rpush('history', `${what} ${fencingToken}`)
}

/** Sections that overlap, and tokens that did not rise. */
function faultsOf(history: readonly string[]): string[] {
  const found: string[] = []
  let holder: string | null = null
  let highest = 0n
  for (const entry of history) {
    const [what, token = ''] = entry.split(' ')
    if (what === 'in') {
      if (holder !== null) found.push(`${token} came in while ${holder} was inside`)
      if (BigInt(token) <= highest) found.push(`${token} is not above ${highest}`)
      highest = BigInt(token)
      holder = token
    } else {
      if (holder !== token) found.push(`${token} went out, and ${holder} was inside`)
      holder = null
    }
  }
  return found
}

describe('a storm of reconnects', () => {
  it('judges of a history are no rubber stamp', () => {
    expect(faultsOf(['in 1', 'out 1', 'in 2', 'out 2'])).toEqual([])
    expect(faultsOf(['in 1', 'in 2', 'out 1', 'out 2'])).toHaveLength(3)
    expect(faultsOf(['in 2', 'out 2', 'in 1', 'out 1'])).toHaveLength(1)
  })

  // Every connection broke, all clients came back at once, and each repeated what it had asked: two
  // held the lock, or the store was kept down by those who wanted it up.
  it.each([true, false])(
    'leaves one holder at a time, and no stampede, with wake-ups: %s',
    async (pushes) => {
      await stand.redis.call('CONFIG', 'RESETSTAT')
      const before = stand.proxy.acceptedCount
      const opening = pushes ? { options: {} } : {}
      const all = await Promise.all(
        Array.from({ length: PROCESSES }, (_, index) => {
          const name = CLIENT_NAMES[index % CLIENT_NAMES.length] as (typeof CLIENT_NAMES)[number]
          return stand.locks({ name, port: stand.proxy.port, ...opening })
        }),
      )
      let isOver = false
      let sections = 0
      const work = async (locks: Locks): Promise<void> => {
        while (!isOver) {
          const options = { ttlMs: 5000, waitMs: 30_000 }
          const lease = await locks.acquire('k', options).catch(() => null)
          if (lease === null) continue
          await note('in', lease)
          await sleep(30)
          await note('out', lease)
          sections += 1
          // In the middle of a storm nobody may confirm it; it is repeated in the background.
          await lease.release().catch(() => undefined)
        }
      }
      // Two contenders in each process, so that locks are also passed on.
      const working = [...all, ...all].map(work)
      // So that nearly every break finds answers under way: done, and not known to be.
      stand.proxy.delay('toClient', 5, 20)
      const connections = new Set<ProxyConnection>()
      stand.proxy.onBytes = (_, __, connection) => connections.add(connection)
      let count = 0
      const isEnough = (): boolean => count >= DISCONNECTS && sections > SECTIONS_AMID
      for (; count < DISCONNECTS_MAX && !isEnough(); count++) {
        await sleep(20 + (count % 5) * 40)
        if (count % 5 === 0) stand.proxy.reset()
        // The others go on meanwhile, and take what an answer that was lost has left to them.
        for (const one of connections) if (one.id % 3 === count % 3) one.reset()
      }
      stand.proxy.heal()
      const amid = sections
      expect(amid).toBeGreaterThan(SECTIONS_AMID)
      await until(() => sections > amid + 20, 'they go on after the storm', 30_000)
      isOver = true
      await Promise.all(working)
      const history = await stand.redis.lrange('history', 0, -1)
      expect(faultsOf(history)).toEqual([])
      expect(history.length).toBe(2 * sections)
      // What a section costs, and what each process asks anew after a disconnect: one attempt, and
      // whether it missed a wake-up.
      const requests = await scriptCalls()
      expect(requests).toBeLessThan(4 * sections + 2 * PROCESSES * count)
      // Each connection was opened once, and at most twice for a disconnect.
      const accepted = stand.proxy.acceptedCount - before
      const each = (pushes ? 2 : 1) * PROCESSES
      expect(accepted).toBeLessThan(2 * each * (count + 1))
      await until(async () => (await lockKeys()).length === 0, 'nothing is held', 20_000)
      const endless = await keysWithoutTtl(stand.redis)
      expect(endless.filter((key) => key !== 'history')).toEqual([])
    },
    120_000,
  )
})

async function lockKeys(): Promise<string[]> {
  const keys = await allKeys(stand.redis)
  return keys.filter((key) => !key.includes('#hf:') && key !== 'history')
}
