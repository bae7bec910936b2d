import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { etcdctl } from '../support/etcd.ts'
import { placesIn, proxyOn, standOnEtcd } from '../support/etcd-stand.ts'
import { until } from '../support/redis.ts'

const stand = standOnEtcd()
const line = proxyOn(stand)
const placesOf = (lockName: string) => placesIn(stand, lockName)

/** A machine that can be sent to sleep: the boot clock goes on, and the monotonic one does not. */
function sleeper(): { seams: Seams; sleepFor(ms: number): void } {
  let sleptMs = 0
  return {
    seams: {
      ...systemSeams,
      bootMs: (nowMs) => systemSeams.bootMs(nowMs) + sleptMs,
      wallMs: () => systemSeams.wallMs() + sleptMs,
    },
    sleepFor: (ms) => {
      sleptMs += ms
    },
  }
}

// The machine slept between the proof of a session and the acquire that used it. The lease had run on in
// etcd, and the holder counted from a proof that was, on its monotonic clock, a moment ago.
it('what was slept since its session was proven is taken off the life of a grant', async () => {
  const { seams, sleepFor } = sleeper()
  const backend = etcdBackendWith(seams, { endpoints: [stand.server.endpoint] })
  stand.ends.push(() => backend.close())
  const first = await acquired(backend, 'slept:first', { ttlMs: 60_000 })
  // Young enough to be used without another proof.
  sleepFor(9000)
  const atMs = seams.nowMs()
  const second = await acquired(backend, 'slept:second', { ttlMs: 60_000 })
  expect(second.sentAtMs).toBeLessThanOrEqual(atMs - 9000)
  const renewal = await backend.renew(first, 60_000)
  expect(renewal).toMatchObject({ kind: 'renewed' })
  if (renewal.kind === 'renewed') expect(renewal.sentAtMs).toBeLessThanOrEqual(atMs - 9000)

  // Too old for that: proven anew, and counted from there.
  sleepFor(35_000)
  const laterMs = seams.nowMs()
  const third = await acquired(backend, 'slept:third', { ttlMs: 60_000 })
  expect(third.sentAtMs).toBeGreaterThanOrEqual(laterMs)
  const [one, other] = [await placesOf('slept:first'), await placesOf('slept:third')]
  expect(one[0]?.lease).toBe(other[0]?.lease)

  // Over as far as anybody can tell, whatever etcd says of it.
  const lost: string[] = []
  const onLost = (reason: string): void => void lost.push(reason)
  await acquired(backend, 'slept:fourth', { ttlMs: 60_000, onLost })
  sleepFor(70_000)
  await acquired(backend, 'slept:fifth', { ttlMs: 60_000 })
  expect((await placesOf('slept:fifth'))[0]?.lease).not.toBe(other[0]?.lease)
  expect(lost).toEqual(['session-ended'])
})

it('the engine gives such a lease no later deadline than etcd does', async () => {
  const { seams, sleepFor } = sleeper()
  const backend = etcdBackendWith(seams, { endpoints: [stand.server.endpoint] })
  const locks = createLocksWith(seams, backend, { ttlMs: 60_000 })
  stand.ends.push(() => locks.close())
  await locks.acquire('slept:engine:first')
  sleepFor(9000)
  const lease = await locks.acquire('slept:engine:second')
  const remainingMs = lease.remainingMs()
  expect(remainingMs).toBeLessThanOrEqual(60_000 - 9000)
  expect(remainingMs).toBeGreaterThan(40_000)
})

// Nobody renews it, and its time was over while etcd could not be reached. It was deleted once, which
// failed, and others kept the session alive that it lay on: the name was taken for ever.
it('what is over is deleted once etcd can be reached again', async () => {
  const backend = stand.backend({ endpoints: [`127.0.0.1:${line.proxy.port}`] })
  const ttlMs = 8000
  const kept = await acquired(backend, 'over:kept', { ttlMs })
  const startMs = performance.now()
  await acquired(backend, 'over:left', { ttlMs })
  const place = (await placesOf('over:left'))[0]
  for (let count = 0; count < 3; count++) {
    await sleep(2000)
    expect(await backend.renew(kept, ttlMs)).toMatchObject({ kind: 'renewed' })
  }
  // From before its time is over until the request that deletes it has been given up.
  await sleep(startMs + ttlMs - 500 - performance.now())
  line.proxy.drop('toServer')
  line.proxy.drop('toClient')
  await sleep(3000)
  expect((await placesOf('over:left')).map(({ lease }) => lease)).toEqual([place?.lease])
  line.proxy.heal()
  line.proxy.reset()
  await until(async () => {
    const renewal = await backend.renew(kept, ttlMs).catch(() => null)
    return renewal?.kind === 'renewed'
  }, 'it is connected again')
  // The very session lives on, and the place is gone.
  expect((await placesOf('over:kept')).map(({ lease }) => lease)).toEqual([place?.lease])
  await until(async () => (await placesOf('over:left')).length === 0, 'it is deleted', 5000)
  const next = await stand.backend().tryAcquire(request('over:left'))
  expect(next.kind).toBe('granted')
}, 60_000)

/** Varints of fields 3 and 4: the times of a lease of a minute, in the answers of etcd. */
const TTL_FIELD = 0x18
const GRANTED = [0x20, 60]
/** As many as one byte says; the real numbers of centuries would make the message longer. */
const TOO_MANY_SECONDS = 127

/** Writes another time to live into the next answers of etcd, on their way. @returns How many it was. */
function misstate(seconds: number, times: number): { count: number } {
  const done = { count: 0 }
  line.proxy.onBytes = (direction, bytes) => {
    if (direction === 'toServer' || done.count === times) return
    // Of a keep-alive it is the last field, of a look at a lease the one before the last.
    const end = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(
      Buffer.from(GRANTED),
    )
    const place = end >= 0 ? end - 2 : keepAliveAt(bytes)
    if (place < 0 || bytes[place] !== TTL_FIELD) return
    bytes[place + 1] = seconds
    done.count += 1
  }
  stand.ends.push(() => {
    line.proxy.onBytes = () => undefined
  })
  return done
}

function keepAliveAt(bytes: Uint8Array): number {
  for (let place = bytes.length - 2; place >= 0; place--) {
    if (bytes[place] === TTL_FIELD && bytes[place + 1] === 60) return place
  }
  return -1
}

// B073. During an election etcd answered a time to live of centuries, and of none.
it('a time to live that was never granted is not believed by a renewal', async () => {
  const backend = stand.backend({ endpoints: [`127.0.0.1:${line.proxy.port}`] })
  const lost: string[] = []
  const onLost = (reason: string): void => void lost.push(reason)
  const grant = await acquired(backend, 'odd', { ttlMs: 60_000, onLost })
  // Young enough a session needs no keep-alive.
  await sleep(10_100)
  const atMs = systemSeams.nowMs()
  const odd = misstate(TOO_MANY_SECONDS, 3)
  const renewal = await backend.renew(grant, 60_000)
  expect(odd.count).toBe(3)
  // From the fourth keep-alive, which was sent when the third one had been answered.
  expect(renewal).toMatchObject({ kind: 'renewed', ttlMs: 60_000 })
  if (renewal.kind === 'renewed') expect(renewal.sentAtMs).toBeGreaterThan(atMs + 140)

  await sleep(10_100)
  const none = misstate(0, 1)
  expect(await backend.renew(grant, 60_000)).toMatchObject({ kind: 'lost' })
  expect(none.count).toBe(1)
  expect(lost).toEqual(['session-ended'])
}, 60_000)

it('nor by a revoke, which takes over what is left', async () => {
  const held = await acquired(stand.backend(), 'odd:revoked', { ttlMs: 60_000 })
  const backend = stand.backend({ endpoints: [`127.0.0.1:${line.proxy.port}`] })
  await backend.inspect('odd:revoked')
  const odd = misstate(TOO_MANY_SECONDS, 2)
  const { fencingToken } = held
  const taken = await backend.revoke(request('odd:revoked'), { fencingToken, reason: 'test' })
  expect(odd.count).toBe(2)
  expect(taken?.ttlMs).toBeLessThanOrEqual(60_000)
  expect(taken?.ttlMs).toBeGreaterThan(50_000)
})

// B073: not found, of a lease that etcd has ended.
it('a release whose lease has ended is answered, and is not tried for ever', async () => {
  const locks = stand.locks({ ttlMs: 60_000 })
  const lease = await locks.acquire('odd:ended', { maxHoldMs: 600_000 })
  const [place] = await placesOf('odd:ended')
  await etcdctl(stand.server, 'lease', 'revoke', BigInt(place?.lease ?? 0).toString(16))
  expect(await lease.release()).toBe('not-held')
})
