import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { EtcdClient } from '../../src/clients/etcd/client.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { acquired, granted, request } from '../../src/testkit/backend-harness.ts'
import { etcdctl } from '../support/etcd.ts'
import { leasesIn, placesIn, proxyOn, standOnEtcd } from '../support/etcd-stand.ts'
import { until } from '../support/redis.ts'

const stand = standOnEtcd()
const line = proxyOn(stand)
const placesOf = (lockName: string) => placesIn(stand, lockName)
const leases = () => leasesIn(stand)

function rawClient(): EtcdClient {
  const target = { endpoints: [stand.server.endpoint], tls: null, login: null }
  const client = new EtcdClient(() => systemSeams, target)
  stand.ends.push(() => client.close())
  return client
}

// B028. A lock that was taken without a lease got one from the server that nobody kept alive, and was
// gone after a minute.
it('every lock has a lease of ours, and is held for as long as it is renewed', async () => {
  const locks = stand.locks({ ttlMs: 2000 })
  const shared = await locks.acquire('kept')
  const own = await locks.acquire('kept alone', { maxHoldMs: 60_000 })
  const before = await Promise.all(['kept', 'kept alone'].map(placesOf))
  for (const [place] of before) expect(BigInt(place?.lease ?? 0)).toBeGreaterThan(0n)
  await sleep(7000)
  for (const lease of [shared, own]) lease.assertValid()
  const after = await Promise.all(['kept', 'kept alone'].map(placesOf))
  expect(after.flat().map(({ lease }) => lease)).toEqual(before.flat().map(({ lease }) => lease))
})

// B043. Each attempt opened a session and left it there when the lock was refused: they piled up.
it.each(['shared', 'own'] as const)(
  '200 attempts that are refused leave no session behind: %s',
  async (leaseMode) => {
    const holder = stand.locks()
    await holder.acquire('refused')
    const backend = stand.backend({ leaseMode })
    expect((await backend.tryAcquire(request('refused'))).kind).toBe('held')
    await until(async () => (await placesOf('refused')).length === 1, 'one place')
    const before = new Set(await leases())
    for (let count = 0; count < 20; count++) {
      const tries = Array.from({ length: 10 }, () => backend.tryAcquire(request('refused')))
      for (const result of await Promise.all(tries)) expect(result.kind).toBe('held')
    }
    const isNew = (lease: string): boolean => !before.has(lease)
    await until(async () => !(await leases()).some(isNew), 'the sessions are gone')
  },
)

// B043. The answer to the grant of a session is lost: nobody knows the session, and nobody ends it.
it('a session whose grant had no answer is ended unseen', async () => {
  const backend = stand.backend({ endpoints: [`127.0.0.1:${line.proxy.port}`] })
  await acquired(backend, 'first', { ttlMs: 5000 })
  const before = new Set(await leases())
  line.proxy.hold('toClient')
  const asking = backend.tryAcquire(request('second', { ttlMs: 70_000, timeoutMs: 8000 }))
  const refused = expect(asking).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
  const isUnseen = (lease: string): boolean => !before.has(lease)
  await until(async () => (await leases()).some(isUnseen), 'a session is there')
  await refused
  line.proxy.letGo('toClient')
  await until(async () => !(await leases()).some(isUnseen), 'the session is gone')
})

// B070. A waiter whose lease had run out while it waited was told that it had the lock, with a key that
// did not exist.
it('a waiter whose session ended unseen is not granted by an old event', async () => {
  const holder = stand.locks()
  const lease = await holder.acquire('unseen')
  const waiter = stand.locks({ ttlMs: 3000 }, { endpoints: [`127.0.0.1:${line.proxy.port}`] })
  let isGranted = false
  const waiting = waiter.acquire('unseen', { waitMs: 60_000 }).then((granted) => {
    isGranted = true
    return granted
  })
  await until(async () => (await placesOf('unseen')).length === 2, 'it stands in the queue')
  // It watches the queue, and has read it: without that there would be no event to believe.
  await sleep(500)
  // Its keep-alives do not arrive, and what etcd says is kept for later.
  line.proxy.hold('toServer')
  line.proxy.hold('toClient')
  await lease.release()
  await until(async () => (await placesOf('unseen')).length === 0, 'its session has ended')
  expect(isGranted).toBe(false)

  line.proxy.letGo('toClient')
  await sleep(300)
  line.proxy.letGo('toServer')
  const granted = await waiting

  granted.assertValid()
  const [place] = await placesOf('unseen')
  expect(BigInt(place?.create_revision ?? 0)).toBe(granted.fencingToken)
})

// B071. A candidate whose lease was revoked waited on outside of the queue, for ever.
it('a waiter whose place vanished stands again, at the end', async () => {
  // The next keep-alive, which would find it out too, is 40 s away.
  const [one, other] = [stand.locks(), stand.locks({ ttlMs: 120_000 })]
  const lease = await one.acquire('vanished')
  const waiting = other.acquire('vanished', { waitMs: 60_000 })
  await until(async () => (await placesOf('vanished')).length === 2, 'it stands in the queue')
  const before = (await placesOf('vanished')).at(-1)
  const [, hex = ''] = (before?.key.toString() ?? '').split('/')
  expect(BigInt(`0x${hex}`).toString()).toBe(before?.lease)

  await etcdctl(stand.server, 'lease', 'revoke', hex)
  await until(async () => {
    const places = await placesOf('vanished')
    return places.length === 2 && places.every(({ lease: id }) => id !== before?.lease)
  }, 'it stands again')

  await lease.release()
  const granted = await waiting
  granted.assertValid()
  expect(granted.fencingToken).toBeGreaterThan(BigInt(before?.create_revision ?? 0))
})

it('a holder whose key was deleted learns it at its next renewal: revoked', async () => {
  const locks = stand.locks({ ttlMs: 3000 })
  const lost: string[] = []
  locks.on('lost', ({ lockName, reason }) => lost.push(`${lockName} ${reason}`))
  const [gone, kept] = [await locks.acquire('deleted'), await locks.acquire('beside it')]
  await etcdctl(stand.server, 'del', '--prefix', 'deleted/')
  await until(() => gone.signal.aborted, 'it is told')
  expect(lost).toEqual(['deleted revoked'])
  kept.assertValid()
})

// B076. Ids of leases and revisions went through JavaScript numbers, and the wrong lease was revoked.
it('a lease id of 63 bits stays what it is', async () => {
  const ID = '2658674479976361868'
  const client = rawClient()
  await client.write('LeaseGrant', { TTL: 60, ID }, 5000, 'a grant')
  const hex = BigInt(ID).toString(16)
  await etcdctl(stand.server, 'put', `--lease=${hex}`, `wide/${hex}`, '')
  const backend = stand.backend()
  expect((await backend.inspect('wide'))?.foreignOwner).toBe(hex)
  expect((await placesOf('wide')).map(({ lease }) => lease)).toEqual([ID])
  const taken = await backend.revoke(request('wide'), { foreignOwner: hex, reason: 'test' })
  expect(taken).not.toBeNull()
  expect((await placesOf('wide')).map(({ lease }) => lease)).not.toContain(ID)
})

// The engine's cancel came before the session of the attempt was known.
it('an attempt that is cancelled while its session is being opened makes no place', async () => {
  const backend = stand.backend()
  const asked = request('early', { ttlMs: 7000 })
  const attempt = backend.tryAcquire(asked)
  await backend.cancel('early', asked.owner)
  await attempt
  expect(await placesOf('early')).toEqual([])
  expect(granted(await backend.tryAcquire(request('early'))).lockName).toBe('early')
})
