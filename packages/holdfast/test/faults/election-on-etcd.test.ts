/** Elections on a real etcd: what the engine's own tests show on a virtual clock holds on its queue too. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import type { Locks } from '../../src/core/lease.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createElection, type ElectionOptions, type Term } from '../../src/election.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { allKeys } from '../support/etcd.ts'
import { standOnEtcd } from '../support/etcd-stand.ts'
import { until } from '../support/redis.ts'

const stand = standOnEtcd()

async function placeCount(electionName: string): Promise<number> {
  const keys = await allKeys([stand.server.endpoint])
  return keys.filter(({ key }) => key.toString().startsWith(`${electionName}/`)).length
}

interface Candidate {
  readonly terms: Term[]
  readonly running: Set<Term>
  /** The most of its terms that ran at a time. */
  readonly most: () => number
  stop(): Promise<void>
}

/** Leads for as long as it may, each time. */
function candidate(
  locks: Locks,
  name: string,
  options: ElectionOptions,
  running: Set<Term> = new Set(),
): Candidate {
  const end = new AbortController()
  const terms: Term[] = []
  const own = new Set<Term>()
  let most = 0
  const loop = (async () => {
    for await (const term of createElection(locks, name, options).campaign({
      signal: end.signal,
    })) {
      terms.push(term)
      running.add(term)
      own.add(term)
      most = Math.max(most, own.size)
      await new Promise<void>((resolve) => {
        if (term.signal.aborted) resolve()
        term.signal.addEventListener('abort', () => resolve(), { once: true })
      })
      running.delete(term)
      own.delete(term)
    }
  })()
  const made = {
    ...{ terms, running, most: () => most },
    stop: async () => {
      end.abort()
      await loop
    },
  }
  stand.ends.push(() => made.stop())
  return made
}

// B011. Times that do not fit together hang an election, or lose it regularly, without a word.
it('times that do not fit together are refused before etcd is asked', () => {
  const locks = stand.locks()
  for (const options of [
    { ttlMs: 5000, renewEveryMs: 6000 },
    { ttlMs: 5000, renewEveryMs: 5000 },
    { ttlMs: 5000, renewDeadlineMs: 3000, renewEveryMs: 3000 },
    { ttlMs: 900 },
    { ttlMs: 5000, drainMs: 5001 },
  ]) {
    expect(() => createElection(locks, 'times', options)).toThrow(/Ms/)
  }
})

// B027. A leader that hangs keeps the leadership for as long as its process lives.
it('a leader that does nothing more is lost at maxHoldMs, and another one leads', async () => {
  const options = { ttlMs: 2000, maxHoldMs: 4000 }
  const lost: string[] = []
  const hung = stand.locks()
  hung.on('lost', ({ reason }) => lost.push(reason))
  const campaign = createElection(hung, 'hung', options).campaign()[Symbol.asyncIterator]()
  const { value: term } = await campaign.next()
  const startMs = performance.now()
  const other = candidate(stand.locks(), 'hung', options)
  // Its body never ends, and nobody calls next().
  await until(() => other.terms.length === 1, 'the other one leads')
  expect(lost).toEqual(['max-hold'])
  expect(performance.now() - startMs).toBeGreaterThan(3500)
  expect(other.terms[0]?.fencingToken).toBeGreaterThan(term?.fencingToken ?? 0n)
})

// B029. Renewals ran at another pace than the TTL asked for, and the lock was dropped.
it('a leader is renewed a third of its TTL apart, and leads throughout', async () => {
  const locks = stand.locks()
  let renewals = 0
  locks.on('renewed', () => {
    renewals += 1
  })
  const leader = candidate(locks, 'renewed', { ttlMs: 3000 })
  await until(() => leader.terms.length === 1, 'it leads')
  renewals = 0
  await sleep(9200)
  expect(leader.terms).toHaveLength(1)
  leader.terms[0]?.assertValid()
  // Nine, unless the machine is slow; never more.
  expect(renewals).toBeGreaterThanOrEqual(7)
  expect(renewals).toBeLessThanOrEqual(10)
})

// B087. The time that a leader wrote was compared with one's own clock. B092. A challenger judged by its own
// short lease.
it('neither a wall clock that is wrong nor a shorter TTL deposes a healthy leader', async () => {
  for (const [index, offsetMs] of [-600_000, 600_000].entries()) {
    const name = `clock:${index}`
    const seams = { ...systemSeams, wallMs: () => systemSeams.wallMs() + offsetMs }
    const backend = etcdBackendWith(seams, { endpoints: [stand.server.endpoint] })
    const wrong = createLocksWith(seams, backend)
    stand.ends.push(() => wrong.close())
    const leader = candidate(wrong, name, { ttlMs: 6000, renewEveryMs: 4000 })
    await until(() => leader.terms.length === 1, 'it leads')
    const challenger = candidate(stand.locks(), name, { ttlMs: 1000 })
    await sleep(7000)
    expect([leader.terms.length, leader.running.size, challenger.terms.length]).toEqual([1, 1, 0])
    leader.terms[0]?.assertValid()
  }
}, 60_000)

// B093. Two processes of one name, or of which one begins with the other, both think that they lead.
it('candidates that say the same of themselves are two, and the one that waits is told', async () => {
  const warned: unknown[] = []
  const [ours, theirs] = [stand.locks(), stand.locks()]
  theirs.on('warning', ({ code, option, value }) => warned.push([code, option, value]))
  const options = { ttlMs: 3000, label: 'node-1', value: 'node-1' }
  const first = candidate(ours, 'same', options)
  await until(() => first.terms.length === 1, 'the first leads')
  const second = candidate(theirs, 'same', options)
  // In this order: the third would lead before it otherwise.
  await until(async () => (await placeCount('same')) === 2, 'the second stands')
  const third = candidate(stand.locks(), 'same', { ...options, label: 'node-10', value: 'node-10' })
  await until(() => warned.length === 2, 'it is told')
  expect(warned).toEqual([
    ['election-settings', 'label', 'node-1'],
    ['election-settings', 'value', 'node-1'],
  ])
  await sleep(1000)
  expect([second.terms.length, third.terms.length]).toEqual([0, 0])
  await first.stop()
  await until(() => second.terms.length === 1, 'the second leads')
  expect(third.terms).toHaveLength(0)
  expect(second.terms[0]?.owner).not.toBe(first.terms[0]?.owner)
})

// B094. "Stopped leading" came to a process that never led, and its place stayed in the queue.
it('a candidate that is stopped while it waits has no term, and leaves no place', async () => {
  const leader = candidate(stand.locks(), 'stopped', { ttlMs: 3000 })
  await until(() => leader.terms.length === 1, 'one leads')
  const locks = stand.locks()
  const told: string[] = []
  for (const type of ['acquired', 'lost', 'released'] as const) {
    locks.on(type, () => told.push(type))
  }
  const waiting = candidate(locks, 'stopped', { ttlMs: 3000 })
  await until(async () => (await placeCount('stopped')) === 2, 'it stands')
  await waiting.stop()
  await until(async () => (await placeCount('stopped')) === 1, 'its place is gone')
  expect([waiting.terms.length, told]).toEqual([0, []])
  expect(leader.running.size).toBe(1)
})

// B095. After an outage nobody led any more, two led, or one process did the work twice.
it.each([1000, 6000])(
  'after an outage of %s ms exactly one leads, with a TTL of 3 s',
  async (outageMs) => {
    const name = `outage:${outageMs}`
    const running = new Set<Term>()
    const all = Array.from({ length: 3 }, () =>
      candidate(stand.locks(), name, { ttlMs: 3000, drainMs: 100 }, running),
    )
    await until(async () => running.size === 1 && (await placeCount(name)) === 3, 'one leads')
    await stand.server.kill()
    await sleep(outageMs)
    if (outageMs > 3000) expect(running.size).toBe(0)
    await stand.server.restart()
    await until(() => running.size === 1, 'one leads again', 30_000)
    await sleep(2000)
    expect(running.size).toBe(1)
    expect(all.map(({ most }) => most()).every((most) => most <= 1)).toBe(true)
    const tokens = all.flatMap(({ terms }) => terms.map(({ fencingToken }) => fencingToken))
    expect(new Set(tokens).size).toBe(tokens.length)
  },
  90_000,
)
