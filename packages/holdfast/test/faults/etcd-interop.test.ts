import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { LockHeldError, NotALockError } from '../../src/core/errors.ts'
import { acquired, isTaken, request } from '../../src/testkit/backend-harness.ts'
import { etcdctl, type ForeignLock, lockByEtcdctl } from '../support/etcd.ts'
import { standOnEtcd } from '../support/etcd-stand.ts'
import { until } from '../support/redis.ts'

const stand = standOnEtcd()

function foreign(lockName: string): ForeignLock {
  const lock = lockByEtcdctl(stand.server, lockName)
  stand.ends.push(() => lock.end())
  return lock
}

/** How many places the queue of a name has, whoever's they are. */
async function places(lockName: string): Promise<number> {
  const keys = await etcdctl(stand.server, 'get', '--prefix', '--keys-only', `${lockName}/`)
  return keys.split('\n').filter((line) => line !== '').length
}

// A migration: half of the fleet is in Go. Two systems that do not see each other's locks are two
// systems that both run the nightly job.
it('what etcdctl holds is held, and is had when etcdctl gives it up', async () => {
  const locks = stand.locks()
  const other = foreign('nightly')
  await other.held
  expect(await locks.tryAcquire('nightly')).toBeNull()
  const seen = await locks.inspect('nightly')
  expect(seen).toMatchObject({ fencingToken: null, holder: null })
  expect(seen?.foreignOwner).toMatch(/^[0-9a-f]+$/)
  const listed = []
  for await (const info of locks.list({ prefix: 'night' })) listed.push(info.foreignOwner)
  expect(listed).toEqual([seen?.foreignOwner])

  const waiting = locks.acquire('nightly', { waitMs: 30_000 })
  await until(async () => (await places('nightly')) === 2, 'it stands in the queue')
  await other.end()
  const lease = await waiting

  expect(await lease.release()).toBe('released')
})

it('etcdctl waits for what is held here, and has it after the release', async () => {
  const locks = stand.locks()
  const lease = await locks.acquire('job')
  const other = foreign('job')
  await until(async () => (await places('job')) === 2, 'etcdctl stands in the queue')
  await sleep(300)
  expect(other.isHeld()).toBe(false)

  await lease.release()

  expect(await other.held).toMatch(/^job\/[0-9a-f]+$/)
  expect(await locks.tryAcquire('job')).toBeNull()
})

// Each system would be fair to itself, and one would starve the other.
it('contenders of both stand in one queue', async () => {
  const locks = stand.locks()
  const others = stand.locks()
  const order: string[] = []
  const lease = await locks.acquire('queue')
  const first = locks.acquire('queue', { waitMs: 30_000 }).then(async (held) => {
    order.push('ours')
    return held
  })
  await until(async () => (await places('queue')) === 2, 'the first stands')
  const second = foreign('queue')
  void second.held.then(() => order.push('etcdctl'))
  await until(async () => (await places('queue')) === 3, 'the second stands')
  const third = others.acquire('queue', { waitMs: 30_000 }).then(async (held) => {
    order.push('theirs')
    return held
  })
  await until(async () => (await places('queue')) === 4, 'the third stands')

  await lease.release()
  await (await first).release()
  await second.held
  await sleep(200)
  expect(order).toEqual(['ours', 'etcdctl'])
  await second.end()
  await (await third).release()

  expect(order).toEqual(['ours', 'etcdctl', 'theirs'])
})

// Go's key is the name and the lease: two callers of one process have the same, and both hold.
it('two contenders of one session exclude each other', async () => {
  const backend = stand.backend()
  const grant = await acquired(backend, 'both')
  expect(await isTaken(backend, 'both')).toBe(true)
  const keys = await etcdctl(stand.server, 'get', '--prefix', '--keys-only', 'both/')
  expect(keys).toBe(`both/${keys.split('/')[1]}/${grant.owner}`)
})

// Waiters on "a" that count every key that begins with "a/" wait for the holders of "a/b".
it('a name with a slash is none of the name before it', async () => {
  const backend = stand.backend()
  await acquired(backend, 'a/b')
  await acquired(backend, 'a%2Fb')
  const grant = await acquired(backend, 'a')
  expect(await backend.release(grant, 0)).toBe('released')
})

it('a key without a lease is told, for it would never end', async () => {
  const backend = stand.backend()
  await etcdctl(stand.server, 'put', 'settings/colour', 'red')
  await expect(backend.tryAcquire(request('settings'))).rejects.toBeInstanceOf(NotALockError)
  const locks = stand.locks()
  await expect(locks.acquire('settings', { waitMs: 5000 })).rejects.toBeInstanceOf(NotALockError)
  // Taken back by requests that nobody waits for.
  await until(async () => (await places('settings')) === 1, 'its place is taken back')
  expect(await etcdctl(stand.server, 'get', '--print-value-only', 'settings/colour')).toBe('red')
})

// etcdctl 3.4 whose key was deleted while it waits claims the lock all the same.
it('a revoke is refused while a foreign program waits, and takes from one that holds', async () => {
  const locks = stand.locks()
  const lease = await locks.acquire('revoked')
  const other = foreign('revoked')
  await until(async () => (await places('revoked')) === 2, 'etcdctl stands in the queue')
  const { fencingToken } = lease
  const reason = 'test'
  await expect(locks.revoke('revoked', { fencingToken, reason })).rejects.toBeInstanceOf(
    LockHeldError,
  )
  lease.assertValid()
  await lease.release()
  await other.held

  const seen = await locks.inspect('revoked')
  const foreignOwner = seen?.foreignOwner ?? ''
  const taken = await locks.revoke('revoked', { foreignOwner, reason })

  expect(taken?.fencingToken).toBeGreaterThan(fencingToken)
  expect(await taken?.release()).toBe('released')
})

// A place has its token already: raised beside it, the next grant would be smaller than the floor.
it('tokens are not raised while somebody waits', async () => {
  const [ours, theirs] = [stand.backend(), stand.backend()]
  const holder = await acquired(ours, 'raised')
  const controller = new AbortController()
  const waiting = theirs.acquireInTurn?.(request('raised'), controller.signal, () => undefined)
  await until(async () => (await places('raised')) === 2, 'it stands in the queue')
  const floor = holder.fencingToken + 1000n

  await expect(ours.raise('raised', floor)).rejects.toBeInstanceOf(LockHeldError)

  controller.abort(new Error('left'))
  await expect(waiting).rejects.toThrow('left')
})
