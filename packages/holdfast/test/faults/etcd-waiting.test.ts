import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, it } from 'vitest'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import { LockHeldError } from '../../src/core/errors.ts'
import type { Locks } from '../../src/core/lease.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { allKeys, type EtcdServer, startEtcd } from '../support/etcd.ts'
import { until } from '../support/redis.ts'

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function open(): Promise<{ server: EtcdServer; holder: Locks; waiter: Locks }> {
  const server = await startEtcd()
  ends.push(() => server.stop())
  const engine = (): Locks => {
    const backend = etcdBackendWith(systemSeams, { endpoints: [server.endpoint] })
    const locks = createLocksWith(systemSeams, backend, { ttlMs: 30_000 })
    ends.push(() => locks.close())
    return locks
  }
  return { server, holder: engine(), waiter: engine() }
}

async function stands(server: EtcdServer): Promise<void> {
  await until(async () => (await allKeys([server.endpoint])).length === 2, 'it stands')
}

// The wait went on for 28 s after etcd was gone, and "held by" was what it was told at its end.
it.each(['kill', 'freeze'] as const)(
  'who waits while etcd is gone (%s) is not told that the lock is held',
  async (how) => {
    const { server, holder, waiter } = await open()
    await holder.acquire('a', { renew: false })
    const waiting = waiter.acquire('a', { waitMs: 8000 }).catch((reason: unknown) => reason)
    await stands(server)
    await server[how]()
    if (how === 'freeze') ends.push(() => server.thaw())
    const error = await waiting
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect((error as Error).message).toContain('etcd does not answer')
  },
)

it('who waits until etcd is there again is told who holds the lock', async () => {
  const { server, holder, waiter } = await open()
  await holder.acquire('a', { label: 'long' })
  const waiting = waiter.acquire('a', { waitMs: 15_000 }).catch((reason: unknown) => reason)
  await stands(server)
  server.freeze()
  await sleep(4000)
  server.thaw()
  expect(await waiting).toMatchObject({ code: 'LOCK_HELD', holder: { label: 'long' } })
})

// Two situations that call for opposite remedies looked the same: both fields were null.
it('a wait that ends tells a lock on the move from a holder that hangs', async () => {
  const { server, holder, waiter } = await open()
  const stuck = await holder.acquire('a')
  const error = await waiter.acquire('a', { waitMs: 4000 }).catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(LockHeldError)
  expect((error as LockHeldError).handOvers).toBe(0)
  expect((error as LockHeldError).heldForMs).toBeGreaterThanOrEqual(1000)
  expect((error as LockHeldError).heldForMs).toBeLessThanOrEqual(4000)
  expect((error as LockHeldError).message).toMatch(/stuck on this holder for at least \d+ ms$/)

  await until(
    async () => (await allKeys([server.endpoint])).length === 2,
    'a cancelled owner stays',
  )
  const next = holder.acquire('a', { label: 'next' })
  await until(async () => (await allKeys([server.endpoint])).length === 3, 'the next one stands')
  const waiting = waiter.acquire('a', { waitMs: 6000 }).catch((reason: unknown) => reason)
  await until(async () => (await allKeys([server.endpoint])).length === 4, 'and the waiter')
  await stuck.release()
  await (await next).assertValid()
  const moved = await waiting
  expect(moved).toMatchObject({ code: 'LOCK_HELD', handOvers: 1, holder: { label: 'next' } })
  expect((moved as Error).message).toContain('busy but progressing, 1 hand-over seen')
})
