import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import { EtcdClient } from '../../src/clients/etcd/client.ts'
import type { AcquireRequest, Backend } from '../../src/core/backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { allKeys, type EtcdCluster, type EtcdServer, startEtcdCluster } from '../support/etcd.ts'
import { until } from '../support/redis.ts'

/** Who wakes up does what it had, or learns first that it is deposed: it is not for the test to say. */
const ROUNDS_MAX = 25
const ATTEMPTS = 10
const DONE_MIN = 3

let cluster: EtcdCluster
const ends: (() => unknown)[] = []

beforeAll(async () => {
  cluster = await startEtcdCluster({ heartbeatMs: 50 })
})

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

afterAll(() => cluster?.stop())

function backendOn(endpoints: readonly string[]): Backend {
  const backend = etcdBackendWith(systemSeams, { endpoints })
  ends.push(() => backend.close())
  return backend
}

async function names(endpoints: readonly string[], start: string): Promise<string[]> {
  const keys = (await allKeys(endpoints)).map(({ key }) => key.toString())
  return keys.filter((key) => key.startsWith(start))
}

/** The leader, stopped, and the two others, one of which leads when this resolves. */
async function freezeLeader(): Promise<{ frozen: EtcdServer; others: readonly EtcdServer[] }> {
  const frozen = await cluster.leader()
  frozen.freeze()
  ends.push(() => frozen.thaw())
  const others = cluster.members.filter((member) => member !== frozen)
  return { frozen, others }
}

async function untilLed(others: readonly EtcdServer[]): Promise<void> {
  await until(async () => {
    const leads = await Promise.all(others.map((member) => member.isLeader().catch(() => false)))
    return leads.includes(true)
  }, 'the others have a leader')
}

// C1. The leader is frozen with an acquire in its socket. The attempt is cancelled at the others, and
// confirmed. Then the old leader wakes up and passes the request on: it is done, and the lock is held by
// nobody for as long as the process lives.
it('a cancelled attempt is not done when the member that had it wakes up', async () => {
  let done = 0
  for (let round = 0; round < ROUNDS_MAX && done < DONE_MIN; round++) {
    const leader = await cluster.leader()
    const others = cluster.members.filter((member) => member !== leader)
    const endpoints = [leader, ...others].map(({ endpoint }) => endpoint)
    // Those that are cancelled, and as many that are left to themselves: without them nothing would be shown.
    const [ours, control] = [backendOn(endpoints), backendOn([leader.endpoint])]
    for (const one of [ours, control]) await acquired(one, `warm:${round}`).catch(() => null)
    const places = Array.from({ length: ATTEMPTS }, (_, place) => place)
    const asked = places.map((place) => request(`cancelled:${round}:${place}`, { timeoutMs: 600 }))
    await freezeLeader()
    const attempts = places.flatMap((place) => [
      ours.tryAcquire(asked[place] as AcquireRequest),
      control.tryAcquire(request(`control:${round}:${place}`, { timeoutMs: 600 })),
    ])
    const outcomes = await Promise.allSettled(attempts)
    expect(new Set(outcomes.map(({ status }) => status))).toEqual(new Set(['rejected']))
    await untilLed(others)
    const cancel = ({ lockName, owner }: AcquireRequest): Promise<boolean> =>
      ours.cancel(lockName, owner).then(
        () => true,
        () => false,
      )
    for (const one of asked) await until(() => cancel(one), 'the cancel is confirmed')

    leader.thaw()
    await until(() => leader.isLeader().then(() => true), 'the old leader is back')
    await sleep(1500)

    const endpointsNow = others.map(({ endpoint }) => endpoint)
    expect(await names(endpointsNow, `cancelled:${round}:`)).toEqual([])
    done += (await names(endpointsNow, `control:${round}:`)).length
    for (const end of ends.splice(0).reverse()) await end()
  }
  // The premise: old requests were done by a member that woke up.
  expect(done).toBeGreaterThanOrEqual(DONE_MIN)
}, 300_000)

// C2. A leader that was frozen answers a keep-alive when it wakes up, before it knows that it is deposed.
// Counted from before the keep-alive left, that answer promises a time that the new leader may not give.
it('a keep-alive that a deposed leader answers does not count', async () => {
  let answered = 0
  for (let round = 0; round < ROUNDS_MAX && answered === 0; round++) {
    const leader = await cluster.leader()
    const ours = backendOn([leader.endpoint])
    const grant = await acquired(ours, `kept:${round}`, { ttlMs: 6000 })
    const raw = new EtcdClient(() => systemSeams, {
      ...{ endpoints: [leader.endpoint], tls: null, login: null },
    })
    ends.push(() => raw.close())
    const [found] = (await allKeys([leader.endpoint])).filter(({ key }) =>
      key.toString().startsWith(`kept:${round}/`),
    )
    const lease = found?.lease ?? ''
    const before = await raw.keepAlive(lease, 5000)
    // Young enough a keep-alive serves the next renewal too.
    await sleep(grant.ttlMs / 6 + 100)
    const { others } = await freezeLeader()
    const renewing = ours.renew(grant, grant.ttlMs).catch((error: Error) => error)
    const keeping = raw.keepAlive(lease, 10_000).catch(() => null)
    await untilLed(others)
    const thawedAtMs = systemSeams.nowMs()
    leader.thaw()

    const renewal = await renewing
    const old = await keeping

    if (!(renewal instanceof Error)) {
      expect(renewal.kind).toBe('renewed')
      if (renewal.kind === 'renewed') expect(renewal.sentAtMs).toBeGreaterThan(thawedAtMs)
    }
    if (old?.header.raft_term === before.header.raft_term) answered += 1
    for (const end of ends.splice(0).reverse()) await end()
  }
  // The premise: a deposed leader did answer, in its old term.
  expect(answered).toBe(1)
}, 300_000)
