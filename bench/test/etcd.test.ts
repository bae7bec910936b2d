import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { barsOf } from '../src/bars.ts'
import { contend } from '../src/contend.ts'
import {
  type EtcdContestant,
  goAlgorithm,
  holdfastEtcd,
  twoTransactions,
} from '../src/contestants/etcd.ts'
import { openEtcd } from '../src/etcd-calls.ts'
import { countersIn } from '../src/etcd-look.ts'
import { electionEntries } from '../src/groups/election.ts'
import { etcdCrowdEntry, etcdPairsEntry, openEtcdServer } from '../src/groups/etcd.ts'
import { type Entry, measure, type Sample } from '../src/measure.ts'
import { rowsOf } from '../src/rows.ts'

let bed: Awaited<ReturnType<typeof openEtcdServer>>

beforeAll(async () => {
  bed = await openEtcdServer()
})

afterAll(() => bed.close())

const SLICE_MS = 100

/** @param hasLease Whether what it puts ends by itself. */
function broken(variant: string, hasLease: boolean, releases: boolean): EtcdContestant {
  return {
    ...{ who: 'broken', variant, client: 'grpc-js', isOwnerChecked: false, hasToken: false },
    connect: async (endpoint) => {
      const calls = openEtcd(endpoint)
      const lease = hasLease ? await calls.grant(60) : '0'
      return {
        acquire: async (lockName) => {
          const key = Buffer.from(`broken/${variant}/${lockName}`)
          await calls.txn({ success: [{ request_put: { key, value: key, lease } }] })
          return async () => {
            if (releases) await calls.txn({ success: [{ request_delete_range: { key } }] })
          }
        },
        close: async () => calls.close(),
      }
    },
  }
}

async function measuredRows(group: string, entries: readonly Entry[]) {
  const { measured, failures } = await measure(entries, { runs: 1, runMs: 1 }, () => {})
  await Promise.all(entries.map((entry) => entry.close()))
  expect(failures).toEqual([])
  return rowsOf(group, measured)
}

describe('the bench on etcd', () => {
  // Whoever puts without a comparison is the fastest of all, and locks nothing.
  it('does not measure a lock that two hold at once', async () => {
    const entry = etcdCrowdEntry(broken('without compare', true, true), 1, 16, SLICE_MS, bed)
    await expect(entry).rejects.toThrow(/\d+ held one name at once/)
  })

  it('does not measure one without a lease, nor one whose release frees nothing', async () => {
    const endless = etcdPairsEntry(broken('without lease', false, true), 1, bed)
    await expect(endless).rejects.toThrow('0 while it was held')
    const look = await openEtcdServer()
    try {
      const kept = etcdPairsEntry(broken('without release', true, false), 1, look)
      await expect(kept).rejects.toThrow('1 after')
    } finally {
      await look.close()
    }
  })

  it('counts two requests for a pair, by hand and ours', async () => {
    const entries = [
      await etcdPairsEntry(twoTransactions, 1, bed),
      await etcdPairsEntry(holdfastEtcd(), 1, bed),
    ]
    const rows = await measuredRows('etcd', entries)
    expect(rows).toMatchObject([
      { who: 'hand-written', requestsEach: 2, p50Ratio: 1, inFlight: 1 },
      { who: 'holdfast', inFlight: 1 },
    ])
    // A session is kept alive now and then, by two requests.
    expect(rows[1]?.requestsEach).toBeGreaterThanOrEqual(2)
    expect(rows[1]?.requestsEach).toBeLessThan(2.1)
    expect(barsOf(rows)).toMatchObject([{ group: 'etcd', wanted: '<= 1.1' }])
  })

  // A floor that lets a second one in would be measured as a lock.
  it('has a floor that excludes', async () => {
    const locker = await twoTransactions.connect(bed.endpoint)
    const release = await locker.acquire('floor')
    await expect(locker.acquire('floor')).rejects.toThrow('floor is held')
    await release()
    await expect(release()).rejects.toThrow('was lost')
    await (await locker.acquire('floor'))()
    await locker.close()
  })

  // Written out from a reading of the Go package: it must queue, or it is no yardstick.
  it("serves the contenders of the Go package's algorithm in the order in which they came", async () => {
    const locker = await goAlgorithm.connect(bed.endpoint)
    const first = await locker.acquire('in-order')
    const served: number[] = []
    const waiting: Promise<void>[] = []
    for (let place = 0; place < 4; place++) {
      waiting.push(
        locker.acquire('in-order').then(async (release) => {
          served.push(place)
          await release()
        }),
      )
      await placesAre(place + 2)
    }
    await first()
    await Promise.all(waiting)
    expect(served).toEqual([0, 1, 2, 3])
    await placesAre(0)
    const sections = await contend(locker, { workers: 3, firstWorker: 0, endMs: 0, turn: 0 })
    expect(sections).toEqual([])
    await locker.close()
  })

  async function placesAre(count: number): Promise<void> {
    await expect.poll(() => bed.look.keysOnLeases(), { timeout: 10_000 }).toBe(count)
  }

  it('measures contenders of several connections, and tells requests and events', async () => {
    const entries = [
      await etcdCrowdEntry(holdfastEtcd('2 waiters', 'two/'), 2, 2, SLICE_MS, bed),
      await etcdCrowdEntry(holdfastEtcd('10 waiters', 'ten/'), 2, 10, SLICE_MS, bed),
    ]
    const [first, second] = entries as [Entry, Entry]
    const rows = await measuredRows('etcd-waiters', [{ ...first, isReference: true }, second])
    expect(rows).toMatchObject([{ inFlight: 2 }, { inFlight: 10 }])
    for (const row of rows) {
      expect(row.eventsEach).toBeGreaterThan(0)
      // A place that is made and one that is deleted; fewer while the watch is being opened.
      expect(row.eventsEach).toBeLessThanOrEqual(2)
    }
    expect(rows[1]?.requestsEach).toBeGreaterThan(1.9)
  })

  it('measures resignations beside one transaction, with terms that rise', async () => {
    const rows = await measuredRows('election', await electionEntries(bed))
    expect(rows).toMatchObject([
      { who: 'hand-written', p50Ratio: 1 },
      { who: 'holdfast', variant: 'resign', count: 10 },
    ])
    // At least one request lies between a resignation and its answer.
    expect(rows[1]?.p50Ms).toBeGreaterThan(0)
    expect(barsOf(rows)).toMatchObject([{ group: 'election', wanted: '<= 3' }])
    expect(await bed.look.keysOnLeases()).toBe(0)
  })
})

describe('figures of etcd', () => {
  const METRICS = [
    'grpc_server_msg_received_total{grpc_method="Txn",grpc_service="etcdserverpb.KV"} 12',
    'grpc_server_msg_received_total{grpc_method="Watch",grpc_service="etcdserverpb.Watch"} 1e+03',
    'grpc_server_msg_sent_total{grpc_method="Txn",grpc_service="etcdserverpb.KV"} 7',
    'etcd_debugging_mvcc_events_total 40',
    '',
  ].join('\n')

  it('are read from what it prints, and a lack of them is an error', () => {
    expect(countersIn(METRICS)).toEqual({ requests: 1012, events: 40 })
    expect(() => countersIn('etcd_debugging_mvcc_events_total 40')).toThrow('does not count')
  })

  // The accident: a watch for each waiter, so that a hand-over among many wakes all of them.
  it.each([
    [2.1, 'OK'],
    [4, 'SHORT'],
  ])('call %d events among many %s where there are 2 among few', async (events, verdict) => {
    const crowd = (inFlight: number, seen: number): Entry => {
      const sample: Sample = { count: 1, elapsedMs: 1, latenciesMs: [1], requests: 2, events: seen }
      return {
        ...{ who: 'holdfast', client: 'grpc-js', comparedWith: 'grpc-js', isOwnerChecked: true },
        ...{ variant: `${inFlight} waiters`, inFlight, isReference: inFlight === 10 },
        slice: async () => sample,
        close: async () => undefined,
      }
    }
    const rows = await measuredRows('etcd-waiters', [crowd(10, 2), crowd(500, events)])
    expect(barsOf(rows).map((bar) => [bar.wanted, bar.verdict])).toEqual([
      ['<= 1.1', 'OK'],
      ['<= 1.1', verdict],
    ])
  })
})
