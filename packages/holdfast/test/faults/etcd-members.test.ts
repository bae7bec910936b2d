import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import type { Locks, LocksOptions } from '../../src/core/lease.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { type EtcdCluster, startEtcdCluster } from '../support/etcd.ts'

let cluster: EtcdCluster

beforeAll(async () => {
  cluster = await startEtcdCluster()
})

afterAll(() => cluster?.stop())

function locksOn(defaults?: LocksOptions, seams: Seams = systemSeams): Locks {
  const made = createLocksWith(
    seams,
    etcdBackendWith(seams, { endpoints: cluster.endpoints }),
    defaults,
  )
  onTestFinished(() => made.close())
  return made
}

type Fault = 'killed' | 'stopped'

/** Takes the leader away for a while. */
async function withoutLeader(fault: Fault, awayMs: number): Promise<void> {
  const leader = await cluster.leader()
  if (fault === 'killed') await leader.kill()
  else leader.freeze()
  await sleep(awayMs)
  if (fault === 'killed') await leader.restart()
  else leader.thaw()
}

// B072. The keep-alive ended with the member that it went to, other members were not tried, and the lock
// was lost although the cluster was back in time.
it.each<Fault>(['killed', 'stopped'])(
  'a lock is held throughout while the leader is %s',
  { timeout: 120_000 },
  async (fault) => {
    const locks = locksOn({ ttlMs: 15_000 })
    const others = locksOn({ ttlMs: 15_000 })
    const events: string[] = []
    locks.on('lost', ({ reason }) => events.push(`lost: ${reason}`))
    let renewals = 0
    locks.on('renewed', () => {
      renewals += 1
    })
    const lease = await locks.acquire(`held while ${fault}`)
    let isGranted = false
    const waiting = others
      .acquire(`held while ${fault}`, { waitMs: Number.POSITIVE_INFINITY })
      .then((next) => {
        isGranted = true
        return next
      })

    await withoutLeader(fault, 20_000)
    lease.assertValid()
    expect({ events, isGranted }).toEqual({ events: [], isGranted: false })
    expect(renewals).toBeGreaterThan(1)

    await lease.release()
    const next = await waiting
    expect(next.fencingToken).toBeGreaterThan(lease.fencingToken)
    await next.release()
  },
)

// B095. After an outage two worked at once, or nobody ever again.
it.each<Fault>(['killed', 'stopped'])(
  'contenders go on, one at a time, when the leader is %s',
  { timeout: 180_000 },
  async (fault) => {
    const sides = [locksOn({ ttlMs: 10_000 }), locksOn({ ttlMs: 10_000 })]
    const lockName = `contended while ${fault}`
    const tokens: bigint[] = []
    let inside = 0
    let overlaps = 0
    let isOver = false
    let afterFault = 0
    const work = async (index: number): Promise<void> => {
      while (!isOver) {
        const locks = sides[index % 2] as Locks
        try {
          await locks.using(lockName, { waitMs: 60_000 }, async (lease) => {
            inside += 1
            if (inside > 1) overlaps += 1
            tokens.push(lease.fencingToken)
            await sleep(5)
            inside -= 1
          })
        } catch {
          // An election goes on: a release, or an attempt, had no answer.
        }
      }
    }
    const all = Promise.all(Array.from({ length: 8 }, (_, index) => work(index)))
    await sleep(1000)
    const before = tokens.length
    await withoutLeader(fault, 8000)
    afterFault = tokens.length
    await sleep(3000)
    isOver = true
    await all

    expect(overlaps).toBe(0)
    expect(before).toBeGreaterThan(0)
    expect(tokens.length).toBeGreaterThan(afterFault)
    for (const [index, token] of tokens.entries()) {
      expect(token).toBeGreaterThan(tokens[index - 1] ?? 0n)
    }
  },
)

// A majority is gone: whoever is left must say so, and hold nothing for longer than it may.
it('without a majority nobody is granted, and a holder is told in time', async () => {
  const locks = locksOn({ ttlMs: 6000 })
  const others = locksOn({ ttlMs: 6000 })
  const lease = await locks.acquire('minority')
  const leader = await cluster.leader()
  const frozen = cluster.members.filter((member) => member !== leader)
  const frozenAtMs = performance.now()
  for (const member of frozen) member.freeze()
  try {
    await expect(others.acquire('other', { waitMs: 3000 })).rejects.toMatchObject({
      code: expect.stringMatching(/^(BACKEND_UNAVAILABLE|OUTCOME_UNKNOWN)$/),
    })
    await new Promise<void>((resolve) => {
      if (lease.signal.aborted) resolve()
      lease.signal.addEventListener('abort', () => resolve())
    })
    // Its last renewal may have been proven until just before.
    expect(performance.now() - frozenAtMs).toBeLessThan(6000)
  } finally {
    for (const member of frozen) member.thaw()
  }
})
