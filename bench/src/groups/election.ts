/** From a leader's resignation to the next leader's first statement, beside one transaction. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks, type Locks } from 'holdfast'
import { createElection, type Term } from 'holdfast/election'
import { etcdBackend } from 'holdfast/etcd'
import { TTL_MS } from '../contestant.ts'
import { type EtcdCalls, isCreatedAt, openEtcd } from '../etcd-calls.ts'
import type { Entry, Sample } from '../measure.ts'
import type { EtcdBed } from './etcd.ts'

/** Of one slice. A candidate that has resigned rests for 10 ms before it stands again. */
const HAND_OVERS = 10
const TRANSACTIONS = 100
const CANDIDATES = 3
const LOOK_EVERY_MS = 2
const LOOKS_MAX = 5_000
const LABEL = { client: 'grpc-js', comparedWith: 'grpc-js', inFlight: 1, isOwnerChecked: true }

export async function electionEntries(bed: EtcdBed): Promise<Entry[]> {
  const candidates = new Candidates(bed)
  const election: Entry = {
    ...LABEL,
    ...{ who: 'holdfast', variant: 'resign', isReference: false },
    slice: () => candidates.handOvers(HAND_OVERS),
    close: () => candidates.close(),
  }
  const calls = openEtcd(bed.endpoint)
  const reference: Entry = {
    ...LABEL,
    ...{ who: 'hand-written', variant: 'one Txn', isReference: true },
    slice: () => transactions(calls),
    close: async () => calls.close(),
  }
  try {
    await candidates.begin()
    for (const { slice } of [reference, election]) await slice()
    return [reference, election]
  } catch (error) {
    await Promise.all([candidates.close(), reference.close()])
    throw error
  }
}

/** Each writes, so that it waits for the disk as a resignation does. */
async function transactions(calls: EtcdCalls): Promise<Sample> {
  const key = Buffer.from('hand-written/one')
  const value = Buffer.from('x')
  const latenciesMs: number[] = []
  const sliceBeganAtMs = performance.now()
  for (let done = 0; done < TRANSACTIONS; done++) {
    const isThere = done % 2 === 1
    const beganAtMs = performance.now()
    const answer = await calls.txn(
      isThere
        ? { compare: [], success: [{ request_delete_range: { key } }] }
        : { compare: [isCreatedAt(key, '0')], success: [{ request_put: { key, value } }] },
    )
    latenciesMs.push(performance.now() - beganAtMs)
    if (answer.succeeded !== true) throw new Error('a transaction was not applied')
  }
  const elapsedMs = performance.now() - sliceBeganAtMs
  return { count: TRANSACTIONS, elapsedMs, latenciesMs }
}

interface Leader {
  readonly term: Term
  readonly toldAtMs: number
  /** Lets the loop of its campaign go on. */
  readonly over: () => void
}

/** Candidates of one election, each on a connection of its own, as in processes of their own. */
class Candidates {
  readonly #bed: EtcdBed
  readonly #stop = new AbortController()
  readonly #locks: Locks[] = []
  readonly #campaigns: Promise<void>[] = []
  readonly #leaders: Leader[] = []
  #told: (() => void) | null = null
  #failed: (error: unknown) => void = () => undefined
  readonly #failure = new Promise<never>((_, reject) => {
    this.#failed = reject
  })

  constructor(bed: EtcdBed) {
    this.#bed = bed
    this.#failure.catch(() => undefined)
  }

  async begin(): Promise<void> {
    while (this.#locks.length < CANDIDATES) {
      const backend = etcdBackend({ endpoints: [this.#bed.endpoint], keyPrefix: 'election/' })
      const locks = createLocks(backend, { ttlMs: TTL_MS })
      this.#locks.push(locks)
      this.#campaigns.push(this.#campaign(locks).catch((error: unknown) => this.#failed(error)))
    }
  }

  async handOvers(count: number): Promise<Sample> {
    const latenciesMs: number[] = []
    const beganAtMs = performance.now()
    let leader = await this.#next()
    for (let done = 0; done < count; done++) {
      await this.#allStand()
      const resignedAtMs = performance.now()
      const resigned = leader.term.resign()
      const next = await this.#next()
      latenciesMs.push(next.toldAtMs - resignedAtMs)
      if ((await resigned) !== 'released') throw new Error('a term was lost')
      if (next.term.fencingToken <= leader.term.fencingToken) throw new Error('terms do not rise')
      leader.over()
      leader = next
    }
    this.#leaders.push(leader)
    return { count, elapsedMs: performance.now() - beganAtMs, latenciesMs }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const { over } of this.#leaders) over()
    await Promise.all(this.#campaigns)
    await Promise.all(this.#locks.map((locks) => locks.close()))
  }

  async #campaign(locks: Locks): Promise<void> {
    const { signal } = this.#stop
    for await (const term of createElection(locks, 'bench').campaign({ signal })) {
      const toldAtMs = performance.now()
      await new Promise<void>((over) => {
        this.#leaders.push({ term, toldAtMs, over })
        this.#told?.()
      })
    }
  }

  /** The next one who leads, or leads already. */
  async #next(): Promise<Leader> {
    const told = new Promise<void>((resolve) => {
      this.#told = resolve
    })
    if (this.#leaders.length === 0) await Promise.race([told, this.#failure])
    const [leader, ...more] = this.#leaders.splice(0)
    if (leader === undefined || more.length > 0) {
      throw new Error(`${more.length + 1} led one election at once`)
    }
    return leader
  }

  /** A hand-over to somebody who is only on the way there would be measured otherwise. */
  async #allStand(): Promise<void> {
    for (let looks = 0; looks < LOOKS_MAX; looks++) {
      if ((await this.#bed.look.keysOnLeases()) === CANDIDATES) return
      await sleep(LOOK_EVERY_MS)
    }
    throw new Error(`not all of ${CANDIDATES} candidates stand`)
  }
}
