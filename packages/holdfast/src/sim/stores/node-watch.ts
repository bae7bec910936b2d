/**
 * Looks into the keys of one lock node, which no client can.
 *
 * I7. An owner whose cancel ran there never has a key there again while its tombstone lives, on the
 *     node's clock; no key of a lock lives longer than one TTL from when it was written. Where every
 *     request arrives, an owner that was given up or released has no key soon after.
 * I8. Counters never fall, unless the node has lost its data.
 */
import { CANCEL } from '../../backends/redis/scripts/cancel.ts'
import { CANCEL as REDLOCK_CANCEL } from '../../backends/redlock/scripts/cancel.ts'
import { acquireTimeoutMs } from '../../core/validity.ts'
import type { History } from '../history.ts'
import type { Entry } from '../node/keyspace.ts'
import type { RedisNode, ScriptCall } from '../node/node.ts'
import { type Scenario, TTL_MS } from '../scenarios.ts'

const HELPER = '#hf:'
const COUNTER = '#hf:token:'
const LOCK = 'lock:'
const OWNER_AT = 4
const OWNER_BYTES = 22
/** After the last request must have arrived. Milliseconds. */
const PATIENCE_MS = 10

const CANCELS: ReadonlySet<string> = new Set(
  [CANCEL, REDLOCK_CANCEL].flatMap(({ sha1, lua }) => [sha1, lua]),
)

type Ground = Readonly<{ history: History; scenario: Scenario }>

export class NodeWatch {
  readonly #name: string
  readonly #ways: number
  readonly #node: RedisNode
  readonly #history: History
  readonly #scenario: Scenario
  /** Cancelled here, until when on this node's clock. */
  readonly #cancelled = new Map<string, number>()
  readonly #counters = new Map<string, bigint>()
  /** As last seen, by key; the keys of locks once more by themselves, which are few. */
  readonly #seen = new Map<string, Entry>()
  readonly #locks = new Map<string, Entry>()
  readonly #told = new Set<string>()
  #version = -1

  /** @param ways How many ways over the network it takes at most until a node is told of an end. */
  constructor(name: string, node: RedisNode, { history, scenario }: Ground, ways = 1) {
    this.#ways = ways
    this.#name = name
    this.#node = node
    this.#history = history
    this.#scenario = scenario
  }

  /** A request has run here. */
  executed(call: ScriptCall, isRepeated: boolean): void {
    if (isRepeated) this.#history.repeated.add(ownerOf(call))
    if (!CANCELS.has(call.script)) return
    const [mark = '', lifeMs = ''] = call.args
    this.#cancelled.set(ownerIn(mark), this.#nodeMs() + Number(lifeMs))
  }

  /** Declared: what it knew is gone. */
  onLoss(): void {
    this.#cancelled.clear()
    this.#counters.clear()
  }

  look(nowMs: number): void {
    const { keys } = this.#node
    if (this.#version !== keys.version) {
      this.#version = keys.version
      const isNew = (key: string, entry: Entry): boolean => this.#seen.get(key) !== entry
      for (const [key, entry] of keys.some(this.#nodeMs(), isNew)) this.#lookAt(key, entry)
    }
    if (this.#scenario.isLossless) this.#lookForOrphans(nowMs)
  }

  #nodeMs(): number {
    return Math.floor(this.#node.clock.nowUs() / 1000)
  }

  #lookAt(key: string, entry: Entry): void {
    const before = this.#seen.get(key)
    this.#seen.set(key, entry)
    if (key.includes(COUNTER)) return this.#lookAtCounter(key, entry)
    if (!key.startsWith(LOCK) || key.includes(HELPER)) return
    this.#locks.set(key, entry)
    this.#lookAtLock(key, entry, before)
  }

  #lookAtCounter(key: string, { value }: Entry): void {
    const token = BigInt(value)
    const before = this.#counters.get(key)
    this.#counters.set(key, token)
    if (before !== undefined && token < before) {
      this.#tell('I8', `the counter ${key} fell from ${before} to ${token}`)
    }
  }

  #lookAtLock(key: string, { value, expiresAtMs }: Entry, before: Entry | undefined): void {
    const owner = ownerIn(value)
    const untilMs = this.#cancelled.get(owner)
    if (untilMs !== undefined && this.#nodeMs() < untilMs) {
      this.#tell('I7', `${key} belongs to ${owner}, whose cancel has run`)
    }
    // Written with the end that it had, it lives no longer for it, whatever the clock did since.
    const isKept = expiresAtMs !== null && expiresAtMs === before?.expiresAtMs
    if (!isKept && (expiresAtMs === null || expiresAtMs - this.#nodeMs() > TTL_MS)) {
      this.#tell('I7', `${key} of ${owner} outlives its TTL`)
    }
  }

  /** Where every request arrives. */
  #lookForOrphans(nowMs: number): void {
    const { askedAtMs, ended, holders, repeated } = this.#history
    const { pauseMs } = this.#scenario
    const latestMs = this.#ways * this.#scenario.weather.slowMsMax + PATIENCE_MS
    for (const [key, entry] of this.#locks) {
      const owner = ownerIn(entry.value)
      const end = ended.get(owner)
      const askedForMs = nowMs - (askedAtMs.get(owner) ?? nowMs)
      const answeredMs = acquireTimeoutMs(TTL_MS) + pauseMs[1] + latestMs
      if (end === undefined && !holders.has(owner) && askedForMs > answeredMs) {
        this.#tell('I7', `${key} belongs to ${owner}, which no holder has`)
      }
      if (end === undefined || nowMs - end.atMs <= latestMs) continue
      // Neither a release nor a refusal leaves a tombstone; what then arrives twice lives for one TTL at most.
      if (end.how !== 'cancelled' && repeated.has(owner)) continue
      if (this.#node.keys.find(key, this.#nodeMs()) !== entry) continue
      this.#tell('I7', `${key} belongs to ${owner}, ${end.how} long ago`)
    }
  }

  /** Each once: what stays wrong is seen again and again. */
  #tell(invariant: 'I7' | 'I8', what: string): void {
    const said = `at ${this.#name}, ${what}`
    if (this.#told.has(said)) return
    this.#told.add(said)
    this.#history.atNodes.push({ invariant, what: said })
  }
}

const OWNER = /hf1:([\w-]{22}):|#hf:cancel:([\w-]{22})/

/** The owner that a request is about; empty if it is about none. */
export function ownerOf({ keys, args }: ScriptCall): string {
  const [, holder, asker = ''] = OWNER.exec([...args, ...keys].join(' ')) ?? []
  return holder ?? asker
}

function ownerIn(mark: string): string {
  return mark.slice(OWNER_AT, OWNER_AT + OWNER_BYTES)
}
