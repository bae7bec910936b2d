import { expect, it } from 'vitest'
import { acquired } from '../../src/testkit/backend-harness.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis(['--enable-debug-command', 'yes'])

const FOREIGN_KEYS = 100_000
const LOCKS = 300
/** A page walks over 250 keys and what else lies in their places of the table. */
const KEYS_PER_PAGE_MAX = 1000

// B111: a page for operators asked for KEYS each second; with a million keys that stopped the Redis of
// production for as long as it took. What is asked here comes back to the others after each page.
it('a listing among many other keys goes page by page, and never asks for KEYS', async () => {
  await stand.redis.call('DEBUG', 'POPULATE', String(FOREIGN_KEYS), 'other')
  const backend = await stand.backend()
  for (let index = 0; index < LOCKS; index++) await acquired(backend, `k${index}`)
  await stand.redis.config('RESETSTAT')
  const names = new Set<string>()
  for await (const { lockName } of backend.list('', 1000)) names.add(lockName)
  expect(names.size).toBe(LOCKS)
  const stats = await stand.redis.info('commandstats')
  const callsOf = (command: string): number =>
    Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0)
  expect(callsOf('scan')).toBeGreaterThan(FOREIGN_KEYS / KEYS_PER_PAGE_MAX)
  expect(callsOf('evalsha') + callsOf('eval')).toBeGreaterThanOrEqual(callsOf('scan'))
  expect(callsOf('keys')).toBe(0)
})
