/**
 * What each node is: a primary of its own, or nothing that may vote.
 *
 * Guarantee: two names of one server never count as two votes (their run_id is the same), and a replica
 * or a Sentinel counts as none. A node is asked before its first vote and again after its connection
 * ended, because the next one may lead to another server.
 */
import { BackendUnavailableError, InvalidArgumentError, type LockError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import { textsOf } from '../../wire/replies.ts'
import type { NodePort } from './node-port.ts'
import { FACTS } from './scripts/look.ts'

/** A node that could not be told is asked again at most so often. */
const AGAIN_MS = 250
const TIMEOUT_MS = 2000

/** As far as this user may ask. */
export type NodeFacts = Readonly<{
  keyAsSent: string
  policy: string
  isWritableReplica: boolean
  runId: string
  role: string
}>

/** What the census tells of a node. */
export interface CensusEvents {
  onFacts(port: NodePort, facts: NodeFacts): void
  /** It may not be asked, or does not say, what it is. */
  onRefused(port: NodePort, refusal: LockError): void
}

type Entry = {
  facts: NodeFacts | null
  refusal: LockError | null
  isAsking: boolean
  askedAtMs: number
}

export class Census {
  readonly #ports: readonly NodePort[]
  readonly #quorum: number
  readonly #seams: () => Seams
  readonly #events: CensusEvents
  readonly #entries: Entry[]
  readonly #lockKey: string
  #learning: Promise<void> | null = null
  #knownCount = 0
  #conflict: InvalidArgumentError | null = null
  #hasAsked = false

  /** @param lockKey Any: the node tells what the client puts before it. */
  constructor(
    ports: readonly NodePort[],
    quorum: number,
    lockKey: string,
    seams: () => Seams,
    events: CensusEvents,
  ) {
    this.#ports = ports
    this.#quorum = quorum
    this.#lockKey = lockKey
    this.#seams = seams
    this.#events = events
    const unknown = { facts: null, refusal: null, isAsking: false }
    this.#entries = ports.map(() => ({ ...unknown, askedAtMs: Number.NEGATIVE_INFINITY }))
  }

  /** Why the node must not vote; null: it may. */
  refusalOf(node: number): LockError | null {
    const entry = this.#entries[node]
    if (entry !== undefined && isKnown(entry)) return null
    return entry?.refusal ?? new BackendUnavailableError('down', 'what it is has not been told yet')
  }

  /** The connection to it ended. */
  forget(node: number): void {
    const entry = this.#entries[node]
    if (entry?.facts == null) return
    entry.facts = null
    entry.refusal = null
    this.#compare()
  }

  /** Null: a vote may be asked for at once; whoever is unknown is asked beside it. */
  settled(): Promise<void> | null {
    if (this.#knownCount === this.#ports.length) return null
    const learning = this.#learn()
    const suffices = this.#hasAsked && this.#knownCount >= this.#quorum && this.#conflict === null
    return suffices ? null : learning
  }

  /** @throws InvalidArgumentError when two names are one server. */
  check(): void {
    if (this.#conflict !== null) throw this.#conflict
  }

  #learn(): Promise<void> {
    const nowMs = this.#seams().nowMs()
    for (const [node, entry] of this.#entries.entries()) {
      if (entry.isAsking || isKnown(entry)) continue
      if (nowMs - entry.askedAtMs < AGAIN_MS) continue
      this.#ask(node, entry)
    }
    return this.#learning ?? Promise.resolve()
  }

  #ask(node: number, entry: Entry): void {
    const port = this.#ports[node]
    if (port === undefined) return
    entry.isAsking = true
    entry.askedAtMs = this.#seams().nowMs()
    const asked = port.ask(FACTS, [this.#lockKey], [], textsOf, TIMEOUT_MS).then(
      (texts) => this.#onTold(port, entry, factsOf(texts)),
      (error: LockError) => {
        entry.refusal = error
        this.#events.onRefused(port, error)
      },
    )
    const before = this.#learning ?? Promise.resolve()
    const learning = Promise.all([before, asked]).then(() => {
      entry.isAsking = false
      this.#hasAsked = true
      if (this.#learning === learning) this.#learning = null
    })
    this.#learning = learning
  }

  #onTold(port: NodePort, entry: Entry, facts: NodeFacts): void {
    entry.facts = facts
    this.#compare()
    this.#events.onFacts(port, facts)
    if (entry.refusal !== null) this.#events.onRefused(port, entry.refusal)
  }

  #compare(): void {
    const seen = new Map<string, string>()
    this.#conflict = null
    for (const [node, entry] of this.#entries.entries()) {
      const { facts } = entry
      if (facts === null) continue
      const name = this.#ports[node]?.name ?? ''
      entry.refusal = refusalFor(name, facts)
      const twin = seen.get(facts.runId)
      if (twin !== undefined && facts.runId !== '') {
        const allowed = `servers of their own: "${twin}" and "${name}" are one and the same server`
        this.#conflict = new InvalidArgumentError('nodes', [twin, name], allowed)
        entry.refusal = this.#conflict
      }
      seen.set(facts.runId, name)
    }
    this.#knownCount = this.#entries.filter(isKnown).length
  }
}

function isKnown({ facts, refusal }: Entry): boolean {
  return facts !== null && refusal === null
}

function refusalFor(name: string, { runId, role }: NodeFacts): LockError | null {
  if (runId === '') {
    const words = `node "${name}" does not tell its run_id: its user needs the right to INFO`
    return new BackendUnavailableError('no-permission', words)
  }
  if (role === 'slave') {
    const words = `node "${name}" is a replica; each node has to be a primary of its own`
    return new BackendUnavailableError('read-only', words)
  }
  return null
}

function factsOf(texts: readonly string[]): NodeFacts {
  const [keyAsSent = '', policy = '', writes = '', runId = '', role = ''] = texts
  return { keyAsSent, policy, isWritableReplica: writes === 'writable', runId, role }
}
