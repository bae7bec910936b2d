/**
 * Random schedules of losses, grants and two programs that let nodes vote, on model nodes and virtual
 * time. What must never be seen:
 *
 * L1. a node that votes while a lease may be in use that it voted for and has forgotten;
 * L2. a quorum of voting nodes none of which has a counter as high as a token that was confirmed.
 *
 * As many nodes lose their data at a time as the table promises to stand, and each as often as it likes.
 */
import { parseMarker, quorumOf, setIdOf } from '../../src/backends/redlock/marker.ts'
import { askerOf } from '../../src/backends/redlock/operating.ts'
import type { Seams } from '../../src/core/seams.ts'
import type { Carry } from '../../src/sim/node/client.ts'
import { createVirtualClock, randomWords, seamsOf } from '../../src/testkit/virtual-clock.ts'
import { markerKey, stripeKeys } from '../../src/wire/keys.ts'

/** Of the sources as they are, or with a bug in them. */
export interface Parts {
  readonly AdmissionTable: typeof import('../../src/backends/redlock/admission-table.ts').AdmissionTable
  readonly RedisNode: typeof import('../../src/sim/node/node.ts').RedisNode
  readonly NodeClient: typeof import('../../src/sim/node/client.ts').NodeClient
}

const MAX_TTL_MS = 1000
const STEPS = 150
const DELAY_MS_MAX = 30
const PREFIX = 'k:'
const MARKER = markerKey(PREFIX)
const STRIPES = stripeKeys(PREFIX)
const [STRIPE = ''] = STRIPES

type NodeOf = InstanceType<Parts['RedisNode']>

interface Attempt {
  readonly votes: readonly Readonly<{ place: number; token: bigint; life: number }>[]
  readonly endsAtMs: number
}

/** @returns What went wrong, in words; empty: nothing did. */
export async function runAdmissionSchedule(
  parts: Parts,
  seed: number,
  nodeCount: number,
): Promise<{ violations: string[]; admissions: number; confirmed: number }> {
  const world = new World(parts, seed, nodeCount)
  await world.run()
  const { violations, admissions, confirmed } = world
  return { violations, admissions, confirmed }
}

class World {
  readonly violations: string[] = []
  admissions = 0
  confirmed = 0
  readonly #clock: ReturnType<typeof createVirtualClock>
  readonly #seams: Seams
  readonly #words: () => number
  readonly #nodes: NodeOf[]
  readonly #quorum: number
  /** How often each was lost, and when last. */
  readonly #lives: number[]
  readonly #lostAtMs: number[]
  readonly #wasVoting: boolean[]
  readonly #programs: { table: InstanceType<Parts['AdmissionTable']>; isBusy: boolean }[]
  readonly #attempts: Attempt[] = []
  #highest = 0n

  constructor({ AdmissionTable, RedisNode, NodeClient }: Parts, seed: number, nodeCount: number) {
    this.#clock = createVirtualClock({ seed })
    this.#seams = seamsOf(this.#clock)
    this.#words = randomWords(seed * 7919)
    this.#quorum = quorumOf(nodeCount)
    this.#nodes = Array.from({ length: nodeCount }, () => new RedisNode(this.#seams))
    this.#lives = this.#nodes.map(() => 0)
    this.#lostAtMs = this.#nodes.map(() => this.#seams.nowMs())
    this.#wasVoting = this.#nodes.map(() => false)
    const names = this.#nodes.map((_, place) => `n${place}`)
    // Each with a clock of its own, as far from the others' as is allowed.
    this.#programs = [0.991, 1.009].map((rate) => {
      const seams = { ...this.#seams, nowMs: () => this.#seams.nowMs() * rate }
      const askers = this.#nodes.map((node, place) => {
        const client = new NodeClient(node, this.#carryTo(place)) as never
        const settings = { client, subscriber: false, isDurable: false } as const
        return askerOf(this.#seams, { name: names[place] ?? '', ...settings })
      })
      const rules = { keyPrefix: PREFIX, names, setId: setIdOf(names), maxTtlMs: MAX_TTL_MS }
      const more = { onEmpty: 'wait', isForced: false } as const
      return {
        table: new AdmissionTable(() => seams, askers, { ...rules, ...more }),
        isBusy: false,
      }
    })
  }

  async run(): Promise<void> {
    for (let step = 0; step < STEPS; step++) {
      const choice = this.#random(10)
      if (choice < 4) this.#pass()
      else if (choice < 5) this.#lose()
      else if (choice < 7) this.#ask()
      else if (choice < 9) this.#confirm()
      await this.#clock.advance(this.#random(choice === 9 ? 500 : 40))
    }
    // Nobody is left in the middle of a pass.
    await this.#clock.advance(10 * DELAY_MS_MAX)
  }

  #random(below: number): number {
    return this.#words() % below
  }

  /** Requests and replies take their time, each its own. */
  #carryTo(place: number): Carry {
    const later = (): Promise<void> =>
      new Promise((resolve) => {
        this.#seams.after(this.#random(DELAY_MS_MAX), resolve)
      })
    return async (deliver) => {
      await later()
      const reply = deliver()
      this.#check(place)
      await later()
      return reply
    }
  }

  #pass(): void {
    const program = this.#programs[this.#random(this.#programs.length)]
    if (program === undefined || program.isBusy) return
    program.isBusy = true
    const done = (): void => {
      program.isBusy = false
    }
    program.table.pass().then(done, (error) => {
      this.violations.push(`a pass failed: ${error}`)
      done()
    })
  }

  #isVoting(place: number): boolean {
    const node = this.#nodes[place] as NodeOf
    const marker = parseMarker(node.keys.find(MARKER, 0)?.value ?? '')
    return marker?.state === 'voting' && marker.runId === node.runId
  }

  #counterOf(place: number): bigint {
    return BigInt(this.#nodes[place]?.keys.find(STRIPE, 0)?.value ?? 0)
  }

  #setCounter(place: number, token: bigint): void {
    const entry = { type: 'string', value: String(token), expiresAtMs: null } as const
    this.#nodes[place]?.keys.put(STRIPE, entry)
  }

  /** While the majority keeps what it knows. */
  #lose(): void {
    const place = this.#random(this.#nodes.length)
    const others = this.#nodes.filter((_, other) => other !== place && !this.#isVoting(other))
    if (others.length >= this.#nodes.length - this.#quorum) return
    const node = this.#nodes[place] as NodeOf
    const how = this.#random(3)
    if (how === 0) node.loseData()
    else {
      node.stop()
      node.start(how === 1)
    }
    // With data of some time before.
    if (how === 1 && this.#counterOf(place) > 5n)
      this.#setCounter(place, this.#counterOf(place) - 5n)
    this.#lives[place] = (this.#lives[place] ?? 0) + 1
    this.#lostAtMs[place] = this.#seams.nowMs()
    this.#wasVoting[place] = false
  }

  /** An attempt gets the votes of a quorum, and has them in its pocket. */
  #ask(): void {
    const voting = this.#nodes.map((_, place) => place).filter((place) => this.#isVoting(place))
    while (voting.length > this.#quorum) voting.splice(this.#random(voting.length), 1)
    if (voting.length < this.#quorum) return
    const votes = voting.map((place) => {
      const token = this.#counterOf(place) + 1n
      this.#setCounter(place, token)
      return { place, token, life: this.#lives[place] ?? 0 }
    })
    this.#attempts.push({ votes, endsAtMs: this.#seams.nowMs() + MAX_TTL_MS })
  }

  /** Some time later it raises the lower ones, where they still stand, and its token is confirmed. */
  #confirm(): void {
    const [attempt] = this.#attempts.splice(this.#random(this.#attempts.length || 1), 1)
    if (attempt === undefined || this.#seams.nowMs() >= attempt.endsAtMs) return
    const [token = 0n] = attempt.votes.map((vote) => vote.token).sort((a, b) => (a < b ? 1 : -1))
    const lower = attempt.votes.filter((vote) => vote.token < token)
    if (lower.some(({ place, life }) => this.#lives[place] !== life)) return
    for (const { place } of lower) {
      if (this.#counterOf(place) < token) this.#setCounter(place, token)
    }
    if (token > this.#highest) this.#highest = token
    this.confirmed += 1
  }

  #check(place: number): void {
    if (!this.#isVoting(place) || this.#wasVoting[place] === true) return
    this.#wasVoting[place] = true
    this.admissions += 1
    const passedMs = this.#seams.nowMs() - (this.#lostAtMs[place] ?? 0)
    if (passedMs < MAX_TTL_MS) {
      this.violations.push(`L1: node ${place} votes ${passedMs} ms after it lost its data`)
    }
    const low = this.#nodes.filter(
      (_, other) => this.#isVoting(other) && this.#counterOf(other) < this.#highest,
    )
    if (low.length >= this.#quorum)
      this.violations.push(`L2: ${low.length} nodes are below a token`)
  }
}
