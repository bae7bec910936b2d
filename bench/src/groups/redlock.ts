/**
 * Locks on a quorum of three servers, while all are alive, one is hung, one is killed, two are killed.
 *
 * Each run has servers and connections of its own, because a server that was killed does not come back
 * as what it was: a lock that it forgot must not be granted by it. Ratios are taken within a run and a
 * situation; what a situation costs is a ratio to the same contestant with all alive, in the same run.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type RedisServer, startRedis } from '../../../packages/cli/dist/lab/servers/index.js'
import {
  holdfastQuorum,
  MissingFormError,
  NODES,
  QUORUM,
  type QuorumContestant,
  type QuorumLocker,
} from '../contestants/quorum.ts'
import { quorumPeers, REDLOCK5 } from '../contestants/quorum-peers.ts'
import { type EntryLabel, type Failure, failureOf, figuresOf, type RunFigures } from '../measure.ts'
import { type QuorumFigures, type Row, rowOf } from '../rows.ts'
import { ServerLook } from '../server-look.ts'
import { median } from '../statistics.ts'
import { countOf, longestRefusal, merged, Trier, type Tries, timesOf } from '../tries.ts'

export const SITUATIONS = ['all alive', 'one hung', 'one killed', 'two killed'] as const
export type Situation = (typeof SITUATIONS)[number]

/** Of one slice. */
const PAIRS = 100
/** After a server was woken: connections that were stuck are in use again. */
const SETTLE_PAIRS = 20
const SETTLE_MS_MAX = 5_000
const SETTLE_LOOK_MS = 20
/** A release is answered by a quorum; the third server has it a moment later. */
const FREED_MS_MAX = 2_000

export interface QuorumProfile {
  readonly runs: number
  /** Of the first three situations of a run together; the last one is as long as its tries. */
  readonly runMs: number
  /** Acquires and releases of each before anything is measured. */
  readonly warmUpPairs: number
  /** Of each with two killed, over all runs. */
  readonly refusedTries: number
  readonly answerMsMax: number
  readonly unansweredMax: number
}

export interface QuorumResult {
  readonly rows: readonly Row[]
  readonly failures: readonly Failure[]
  /** Who is not there, in a line each. */
  readonly notes: readonly string[]
}

/** What one run showed of one contestant in one situation. */
interface Seen {
  readonly tries: Tries
  readonly backlog: QuorumFigures['backlog']
  readonly heapKb: number
}

interface Taking {
  readonly contestant: QuorumContestant
  readonly locker: QuorumLocker
  readonly trier: Trier
}

type SeenRuns = Map<QuorumContestant, Record<Situation, Seen[]>>

/** @throws MissingServerError */
export async function measureQuorum(
  profile: QuorumProfile,
  withPeers: boolean,
  onRun: (run: number) => void,
): Promise<QuorumResult> {
  const contestants = [...(withPeers ? quorumPeers() : []), ...holdfastQuorum()]
  return measureAll(contestants, profile, onRun)
}

/** For tests: with contestants of theirs. */
export async function measureAll(
  contestants: readonly QuorumContestant[],
  profile: QuorumProfile,
  onRun: (run: number) => void,
): Promise<QuorumResult> {
  const seen: SeenRuns = new Map(
    contestants.map((one) => [
      one,
      { 'all alive': [], 'one hung': [], 'one killed': [], 'two killed': [] },
    ]),
  )
  const failures: Failure[] = []
  const notes: string[] = []
  const drop = (contestant: QuorumContestant, error: unknown): void => {
    seen.delete(contestant)
    if (error instanceof MissingFormError) notes.push(error.message)
    else failures.push(failureOf(contestant, error))
  }
  for (let run = 1; run <= profile.runs; run++) {
    onRun(run)
    await new QuorumRun(profile, run, seen, drop).all()
  }
  return { rows: rowsOfQuorum(seen), failures, notes }
}

class QuorumRun {
  readonly #profile: QuorumProfile
  readonly #number: number
  readonly #seen: SeenRuns
  readonly #drop: (contestant: QuorumContestant, error: unknown) => void
  readonly #servers: RedisServer[] = []
  #taking: Taking[] = []

  constructor(
    profile: QuorumProfile,
    number: number,
    seen: SeenRuns,
    drop: (contestant: QuorumContestant, error: unknown) => void,
  ) {
    this.#profile = profile
    this.#number = number
    this.#seen = seen
    this.#drop = drop
  }

  async all(): Promise<void> {
    // Which server it is must not matter.
    const bad = this.#number % NODES
    const other = (bad + 1) % NODES
    try {
      for (let node = 0; node < NODES; node++) this.#servers.push(await startRedis())
      await this.#begin()
      await this.#inTurn('all alive', bad)
      this.#servers[bad]?.freeze()
      await this.#inTurn('one hung', bad)
      this.#servers[bad]?.thaw()
      await this.#settle(bad)
      await this.#servers[bad]?.kill()
      await this.#inTurn('one killed', bad)
      await this.#servers[other]?.kill()
      await this.#together('two killed', bad)
    } finally {
      const closing = this.#taking.map(({ locker }) => locker.close())
      await Promise.race([Promise.allSettled(closing), sleep(SETTLE_MS_MAX)])
      for (const server of this.#servers) await server.stop()
    }
  }

  async #begin(): Promise<void> {
    const ports = this.#servers.map(({ port }) => port)
    const looks = await Promise.all(ports.map((port) => ServerLook.open(port)))
    try {
      for (const contestant of [...this.#seen.keys()]) {
        try {
          this.#taking.push(await this.#ready(contestant, ports, looks))
        } catch (error) {
          this.#drop(contestant, error)
        }
      }
      if (this.#number === 1) await this.#checkThatTheyExclude(ports)
    } finally {
      for (const look of looks) look.close()
    }
  }

  async #ready(
    contestant: QuorumContestant,
    ports: readonly number[],
    looks: readonly ServerLook[],
  ): Promise<Taking> {
    const locker = await contestant.connect(ports)
    try {
      // Some of them lock the very key that they are asked for: of one name they would be rivals.
      const trier = new Trier(locker, `bench-${this.#taking.length}:`)
      await checkThatItIsThere(locker, looks)
      await warmUp(trier, this.#profile.warmUpPairs, this.#profile.answerMsMax)
      await untilFree(looks)
      return { contestant, locker, trier }
    } catch (error) {
      await locker.close()
      throw error
    }
  }

  async #checkThatTheyExclude(ports: readonly number[]): Promise<void> {
    const extent = { tries: 1, answerMsMax: this.#profile.answerMsMax, unansweredMax: 1 }
    const check = async ({ contestant, locker }: Taking): Promise<void> => {
      const second = await contestant.connect(ports)
      try {
        const lockName = `bench-check:${contestant.who},${contestant.variant},${contestant.client}`
        const release = await locker.acquire(lockName)
        const { grantedMs } = await new Trier(asIf(second, lockName), '').run(extent)
        if (grantedMs.length > 0) throw new Error('2 held one name at once')
        await release()
      } finally {
        await second.close()
      }
    }
    const checks = await Promise.allSettled(this.#taking.map(check))
    for (const [place, { contestant, locker }] of [...this.#taking.entries()]) {
      const outcome = checks[place]
      if (outcome?.status !== 'rejected') continue
      this.#drop(contestant, outcome.reason)
      await locker.close()
    }
    this.#taking = this.#taking.filter(({ contestant }) => this.#seen.has(contestant))
  }

  async #inTurn(situation: Situation, bad: number): Promise<void> {
    const { runMs, answerMsMax, unansweredMax } = this.#profile
    const extent = { tries: PAIRS, answerMsMax, unansweredMax }
    const parts = new Map<Taking, Tries[]>(this.#taking.map((one) => [one, []]))
    const heapKb = new Map<Taking, number>()
    const endMs = performance.now() + runMs / (SITUATIONS.length - 1)
    const goesOn = new Set(this.#taking)
    let first = this.#number
    do {
      const inTurn = [...goesOn]
      for (let place = 0; place < inTurn.length; place++) {
        const one = inTurn[(first + place) % inTurn.length] as Taking
        const isFirst = !heapKb.has(one)
        const heapBefore = isFirst ? await usedHeap() : 0
        const tries = await one.trier.run(extent)
        if (isFirst) heapKb.set(one, ((await usedHeap()) - heapBefore) / 1024)
        parts.get(one)?.push(tries)
        // It would hang again and again.
        if (tries.unansweredMs.length > 0) goesOn.delete(one)
      }
      first++
    } while (performance.now() < endMs && goesOn.size > 0)
    for (const [one, own] of parts) {
      this.#note(one, situation, bad, merged(own), heapKb.get(one) ?? 0)
    }
  }

  /** All at once: each waits for its timers, and for nothing else. */
  async #together(situation: Situation, bad: number): Promise<void> {
    const { refusedTries, runs, answerMsMax, unansweredMax } = this.#profile
    const extent = { tries: Math.ceil(refusedTries / runs), answerMsMax, unansweredMax }
    await Promise.all(
      this.#taking.map(async (one) => {
        this.#note(one, situation, bad, await one.trier.run(extent), 0)
      }),
    )
  }

  #note(one: Taking, situation: Situation, bad: number, tries: Tries, heapKb: number): void {
    const backlog = one.locker.backlog(bad)
    this.#seen.get(one.contestant)?.[situation].push({ tries, backlog, heapKb })
  }

  /** Until nobody waits for the server that was woken. */
  async #settle(bad: number): Promise<void> {
    const endMs = performance.now() + SETTLE_MS_MAX
    const isBusy = (): boolean =>
      this.#taking.some(({ locker }) => (locker.backlog(bad)?.requests ?? 0) > 0)
    do await sleep(SETTLE_LOOK_MS)
    while (isBusy() && performance.now() < endMs)
    const extent = { tries: SETTLE_PAIRS, answerMsMax: SETTLE_MS_MAX, unansweredMax: 1 }
    for (const { trier } of this.#taking) await trier.run(extent)
  }
}

/** Whatever name is asked for. */
function asIf(locker: QuorumLocker, lockName: string): QuorumLocker {
  return { ...locker, acquire: () => locker.acquire(lockName) }
}

/** A key with a TTL on a quorum while it is held, and on none after. */
async function checkThatItIsThere(
  locker: QuorumLocker,
  looks: readonly ServerLook[],
): Promise<void> {
  const release = await locker.acquire('bench:check')
  const held = await Promise.all(looks.map((look) => look.keysWithTtl()))
  await release()
  const count = held.filter((keys) => keys > 0).length
  if (count < QUORUM) throw new Error(`a key with a TTL on ${count} servers while it was held`)
  await untilFree(looks)
}

async function untilFree(looks: readonly ServerLook[]): Promise<void> {
  const endMs = performance.now() + FREED_MS_MAX
  for (;;) {
    const left = await Promise.all(looks.map((look) => look.keysWithTtl()))
    if (left.every((keys) => keys === 0)) return
    if (performance.now() > endMs) {
      throw new Error(`${left.join(', ')} locks stand although all were released`)
    }
    await sleep(SETTLE_LOOK_MS)
  }
}

async function warmUp(trier: Trier, tries: number, answerMsMax: number): Promise<void> {
  const done = await trier.run({ tries, answerMsMax, unansweredMax: 1 })
  if (done.grantedMs.length === tries) return
  throw new Error(`${done.grantedMs.length} of ${tries} granted with all alive: ${done.reason}`)
}

/** After a collection. Code that was compiled stays compiled. */
async function usedHeap(): Promise<number> {
  collect ??= collector()
  collect()
  // What was found to be over is let go in the next turn.
  await nextTurn()
  collect()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}

let collect: (() => void) | null = null

function collector(): () => void {
  setFlagsFromString('--no-flush-bytecode')
  setFlagsFromString('--expose-gc')
  return runInNewContext('gc') as () => void
}

/** Of each situation; what is compared with is redlock 5, without it the first one. */
function rowsOfQuorum(seen: SeenRuns): Row[] {
  const contestants = [...seen.keys()]
  const compared = contestants.find(({ who }) => who === REDLOCK5) ?? contestants[0]
  const reference = compared && seen.get(compared)
  if (compared === undefined || reference === undefined) return []
  return SITUATIONS.flatMap((situation) => {
    const base = { entry: labelOf(compared, true), runs: figuresOfAll(reference[situation]) }
    return [...seen].map(([contestant, own]): Row => {
      const entry = labelOf(contestant, contestant === compared)
      const one = { entry, runs: figuresOfAll(own[situation]) }
      return { ...rowOf('redlock', one, base), quorum: quorumFigures(situation, own[situation]) }
    })
  })
}

function labelOf(contestant: QuorumContestant, isReference: boolean): EntryLabel {
  const { who, variant, client, isOwnerChecked } = contestant
  return { who, variant, client, isOwnerChecked, isReference, inFlight: 1, comparedWith: REDLOCK5 }
}

function figuresOfAll(seen: readonly Seen[]): RunFigures[] {
  return seen.map(({ tries }) => {
    const { elapsedMs, clientUs } = tries
    const latenciesMs = timesOf(tries)
    return figuresOf([{ count: latenciesMs.length, elapsedMs, latenciesMs, clientUs }])
  })
}

function quorumFigures(situation: Situation, seen: readonly Seen[]): QuorumFigures {
  const tries = merged(seen.map((one) => one.tries))
  const backlogs = seen.flatMap(({ backlog }) => (backlog === null ? [] : [backlog]))
  const most = (figure: 'requests' | 'bytes'): number =>
    Math.max(...backlogs.map((one) => one[figure]))
  return {
    situation,
    tries: countOf(tries),
    granted: tries.grantedMs.length,
    unanswered: tries.unansweredMs.length,
    longestRefusalMs: longestRefusal(tries),
    reason: tries.reason,
    backlog: backlogs.length === 0 ? null : { requests: most('requests'), bytes: most('bytes') },
    heapKb: situation === 'two killed' ? null : median(seen.map(({ heapKb }) => heapKb)),
  }
}
