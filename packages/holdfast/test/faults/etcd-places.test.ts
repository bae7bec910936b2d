import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { TOKEN_MAX } from '../../src/core/token.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { etcdctl } from '../support/etcd.ts'
import { leasesIn, placesIn, proxyOn, standOnEtcd } from '../support/etcd-stand.ts'
import { until } from '../support/redis.ts'

const stand = standOnEtcd()
const line = proxyOn(stand)
const placesOf = (lockName: string) => placesIn(stand, lockName)
const leases = () => leasesIn(stand)

function byProxy(): { endpoints: string[] } {
  return { endpoints: [`127.0.0.1:${line.proxy.port}`] }
}

function hexOf(place: { key: Buffer } | undefined): string {
  return place?.key.toString().split('/')[1] ?? ''
}

// The turn came while keep-alives did not arrive. The attempt failed as if nothing had been asked for, and
// its place stood first in the queue for as long as the process kept its session alive.
it('a place whose turn could not be proven does not stand in the way', async () => {
  const holder = await stand.locks().acquire('unproven')
  const waiter = stand.locks({ ttlMs: 12_000 }, byProxy())
  const waiting = waiter.acquire('unproven', { waitMs: 60_000 })
  await until(async () => (await placesOf('unproven')).length === 2, 'it stands')
  const [, place] = await placesOf('unproven')
  line.proxy.hold('toServer')
  // A session is taken for alive without a proof for half of its life.
  await sleep(6500)
  await holder.release()
  // The proof is given up, and the session is there still.
  await sleep(2500)
  expect((await placesOf('unproven')).map(hexOf)).toEqual([hexOf(place)])
  line.proxy.letGo('toServer')

  const lease = await Promise.race([waiting, sleep(15_000, null)])

  expect(lease?.isHeld).toBe(true)
  expect((await placesOf('unproven')).map(({ create_revision }) => create_revision)).toEqual([
    lease?.fencingToken.toString(),
  ])
}, 60_000)

// The session of the attempt had ended, so the cancel found nothing to undo, and the attempt took another
// session and made a place there: after the cancel was confirmed.
it('an attempt whose session had ended is not made again on another one after its cancel', async () => {
  const backend = stand.backend(byProxy())
  await acquired(backend, 'warm', { ttlMs: 30_000 })
  const [warm] = await placesOf('warm')
  await etcdctl(stand.server, 'lease', 'revoke', hexOf(warm))
  line.proxy.hold('toServer')
  const controller = new AbortController()
  const asked = request('undone', { ttlMs: 30_000 })
  const attempt = backend.acquireInTurn?.(asked, controller.signal, () => undefined)
  const settled = attempt?.then(
    () => 'granted',
    () => 'failed',
  )
  // It has its session, as it thinks, and the request is on its way.
  await sleep(100)
  controller.abort(new Error('left'))
  const cancelled = backend.cancel('undone', asked.owner)
  await sleep(100)
  line.proxy.letGo('toServer')
  await cancelled
  expect(await settled).toBe('failed')
  expect(await placesOf('undone')).toEqual([])
})

// The answer to the move was lost, so the place lay on a session that nobody kept alive, while renewals
// kept the old one alive and promised its whole life.
it('a renewal does not promise the life of a session that the place was moved away from', async () => {
  const backend = stand.backend(byProxy())
  const longer = stand.backend()
  const grant = await acquired(backend, 'moved', { ttlMs: 8000 })
  const [before] = await placesOf('moved')
  // A session of that TTL is there already; no answer is needed but that of the move.
  await acquired(backend, 'beside', { ttlMs: 12_000 })
  line.proxy.hold('toClient')
  await expect(backend.renew(grant, 12_000)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  line.proxy.letGo('toClient')
  expect((await placesOf('moved'))[0]?.lease).not.toBe(before?.lease)

  const nearlyLonger = Array.from({ length: 9 }, (_, at) => at)
  for (const at of nearlyLonger) {
    const renewal = await backend.renew(grant, 8000)
    const told = `renewal ${at}: ${JSON.stringify(renewal)}`
    expect(renewal.kind, told).toBe('renewed')
    if (renewal.kind !== 'renewed') return
    const [place] = await placesOf('moved')
    expect(place?.create_revision, told).toBe(grant.fencingToken.toString())
    const shown = await etcdctl(stand.server, 'lease', 'timetolive', hexOfLease(place?.lease))
    const leftMs = Number(/remaining\(([0-9]+)s\)/.exec(shown)?.[1] ?? 0) * 1000
    // etcd rounds down, and time goes on.
    const promisedMs = renewal.sentAtMs + renewal.ttlMs - performance.now()
    expect(leftMs + 1500, `${told}; ${shown}`).toBeGreaterThan(promisedMs)
    await sleep(1500)
  }
  expect((await longer.tryAcquire(request('moved'))).kind).toBe('held')
}, 60_000)

function hexOfLease(lease: string | undefined): string {
  return BigInt(lease ?? 0).toString(16)
}

// Each attempt that was cancelled too early left a session of its own, and what the process knew of it.
it('an attempt that is cancelled before it has its session leaves none behind', async () => {
  const backend = stand.backend()
  await backend.inspect('none')
  const before = new Set(await leases())
  const asked = request('too early', { ttlMs: 50_000, ownLife: true })
  const attempt = backend.acquireInTurn?.(asked, new AbortController().signal, () => undefined)
  const settled = expect(attempt).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
  await backend.cancel('too early', asked.owner)
  await settled
  // One for the cancelled owner, which ends by itself.
  const isNew = (lease: string): boolean => !before.has(lease)
  await until(async () => (await leases()).filter(isNew).length === 1, 'its session is gone')
  expect(await placesOf('too early')).toEqual([])
})

// No token was left for the place that had been made: it failed as if it had not been, and was in the way.
it.each(['tryAcquire', 'acquireInTurn'] as const)(
  'a place for which no token is left is given up: %s',
  async (way) => {
    const keyPrefix = `end:${way}:`
    const backend = stand.backend({ keyPrefix })
    await backend.raise('last', TOKEN_MAX - 1n)
    const { signal } = new AbortController()
    const asked = request('none')
    const attempt =
      way === 'tryAcquire'
        ? backend.tryAcquire(asked)
        : backend.acquireInTurn?.(asked, signal, () => undefined)
    await expect(attempt).rejects.toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    await until(async () => (await placesOf(`${keyPrefix}none`)).length === 0, 'the place is gone')
  },
)
