/** Locks in etcd: what people write by hand, the algorithm of the Go package, and ours. */
import { randomUUID } from 'node:crypto'
import { createLocks } from 'holdfast'
import { etcdBackend } from 'holdfast/etcd'
import { type Contestant, type Locker, type Release, TTL_MS, WAIT_MS } from '../contestant.ts'
import { type EtcdCalls, isCreatedAt, openEtcd, type WatchAnswer } from '../etcd-calls.ts'
import { holdfastLocker } from './holdfast.ts'

/** By the address of a member. */
export type EtcdContestant = Contestant<string>

const CLIENT = 'grpc-js'
/** Longer than any run of the bench: nobody keeps it alive. Seconds. */
const LEASE_S = 3_600
const ASCENDING = 1
const DESCENDING = 2
const BY_CREATION = 2
const DELETED = 1

const BY_HAND = {
  who: 'hand-written',
  client: CLIENT,
  isOwnerChecked: true,
  hasToken: true,
} as const

/** The floor: one transaction puts the key if it is absent, another deletes it if it is still that one. */
export const twoTransactions: EtcdContestant = {
  ...BY_HAND,
  variant: 'two Txn',
  connect: async (endpoint) => {
    const calls = openEtcd(endpoint)
    const lease = await calls.grant(LEASE_S)
    return {
      acquire: async (lockName) => {
        const key = Buffer.from(`hand-written/${lockName}`)
        const put = { request_put: { key, value: Buffer.from(randomUUID()), lease } }
        const answer = await calls.txn({ compare: [isCreatedAt(key, '0')], success: [put] })
        if (answer.succeeded !== true) throw new Error(`${lockName} is held`)
        return releaseOf(calls, key, answer.header.revision)
      },
      close: async () => calls.close(),
    }
  },
}

function releaseOf(calls: EtcdCalls, key: Buffer, revision: string): Release {
  return async () => {
    const end = { request_delete_range: { key } }
    const answer = await calls.txn({ compare: [isCreatedAt(key, revision)], success: [end] })
    if (answer.succeeded !== true) throw new Error(`${key} was lost`)
  }
}

/**
 * What `concurrency.Mutex` of etcd's Go client does (client/v3/concurrency, mutex.go and key.go), one
 * session for each contender: a key in the queue; as long as there is an older one, a watch of the last
 * of them from the revision at which it was read, and another look; then a look at the own key.
 */
export const goAlgorithm: EtcdContestant = {
  ...BY_HAND,
  variant: 'as Go does',
  connect: async (endpoint) => {
    const calls = openEtcd(endpoint)
    const watches = new Watches(calls)
    const freeLeases: string[] = []
    return {
      acquire: async (lockName) => {
        const lease = freeLeases.pop() ?? (await calls.grant(LEASE_S))
        const prefix = `go/${lockName}/`
        const key = Buffer.from(prefix + BigInt(lease).toString(16))
        const { revision, isFirst } = await stand(calls, prefix, key, lease)
        if (!isFirst) {
          await waitForOlder(calls, watches, prefix, revision)
          const { kvs = [] } = await calls.range({ key })
          if (kvs[0]?.create_revision !== revision) throw new Error(`${lockName} was lost`)
        }
        const release = releaseOf(calls, key, revision)
        return async () => {
          await release()
          freeLeases.push(lease)
        }
      },
      close: async () => calls.close(),
    }
  },
}

/** @returns The revision of its place, and whether nobody stands before it. */
async function stand(
  calls: EtcdCalls,
  prefix: string,
  key: Buffer,
  lease: string,
): Promise<Readonly<{ revision: string; isFirst: boolean }>> {
  const first = { ...rangeOf(prefix), sort_order: ASCENDING, sort_target: BY_CREATION, limit: 1 }
  const answer = await calls.txn({
    compare: [isCreatedAt(key, '0')],
    success: [{ request_put: { key, value: Buffer.alloc(0), lease } }, { request_range: first }],
  })
  if (answer.succeeded !== true) throw new Error(`${key} stands already`)
  const { revision } = answer.header
  const [oldest] = answer.responses?.[1]?.response_range?.kvs ?? []
  return { revision, isFirst: oldest?.create_revision === revision }
}

async function waitForOlder(
  calls: EtcdCalls,
  watches: Watches,
  prefix: string,
  revision: string,
): Promise<void> {
  const older = {
    ...{ ...rangeOf(prefix), sort_order: DESCENDING, sort_target: BY_CREATION, limit: 1 },
    max_create_revision: (BigInt(revision) - 1n).toString(),
  }
  for (;;) {
    const { header, kvs = [] } = await calls.range(older)
    const [last] = kvs
    if (last === undefined) return
    await watches.deletion(last.key, header.revision)
  }
}

/** Many watches on one stream. */
class Watches {
  readonly #calls: EtcdCalls
  readonly #waiting = new Map<string, () => void>()
  #stream: ReturnType<EtcdCalls['watch']> | null = null
  #count = 0

  constructor(calls: EtcdCalls) {
    this.#calls = calls
  }

  deletion(key: Buffer, fromRevision: string): Promise<void> {
    this.#stream ??= this.#calls.watch((answer) => this.#onAnswer(answer))
    const id = `${++this.#count}`
    const stream = this.#stream
    return new Promise((resolve) => {
      this.#waiting.set(id, () => {
        this.#waiting.delete(id)
        stream.write({ cancel_request: { watch_id: id } })
        resolve()
      })
      stream.write({ create_request: { key, start_revision: fromRevision, watch_id: id } })
    })
  }

  #onAnswer({ watch_id: id = '0', events = [] }: WatchAnswer): void {
    if (events.some(({ type }) => type === DELETED)) this.#waiting.get(id)?.()
  }
}

function rangeOf(prefix: string): { key: Buffer; range_end: Buffer } {
  // '0' comes right behind the slash at its end.
  return { key: Buffer.from(prefix), range_end: Buffer.from(`${prefix.slice(0, -1)}0`) }
}

/** @param keyPrefix Where contestants must not see each other's places. */
export function holdfastEtcd(variant = '', keyPrefix = 'holdfast/'): EtcdContestant {
  return {
    who: 'holdfast',
    variant,
    client: CLIENT,
    isOwnerChecked: true,
    hasToken: true,
    connect: async (endpoint): Promise<Locker> => {
      const backend = etcdBackend({ endpoints: [endpoint], keyPrefix })
      return holdfastLocker(
        createLocks(backend, { ttlMs: TTL_MS, waitMs: WAIT_MS }),
        () => undefined,
      )
    },
  }
}
