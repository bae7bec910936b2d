/**
 * The queue of one name as this process sees it: one watch for all its contenders.
 *
 *     watch from now ─▶ confirmed ─▶ one read of the range ─▶ events, each of which changes the list
 *
 * Guarantees:
 * W1. The list is what etcd held at `revision`: events of one watch come in the order of revisions, and
 *     what came before the read is in the read. So "the first" is a fact at that revision.
 * W2. A contender learns that it is first only from a list, or a read, not older than its own place.
 *     Places are never made before one that is there, so it stays first as long as it has its place.
 * W3. A watch that broke, was compacted away or lags is opened anew from now, and the list made anew. A
 *     read a second apart finds that out, and whoever is first meanwhile: events are hints.
 *
 * Costs: two events and no request for each hand-over, whatever the number of contenders; one read a second.
 *
 * Rejected: a watch of the place before the own one, from the revision at which it was read: seven
 * requests for each section, and less than half the rate. So does the Go package.
 */
import type { Stream } from '../../clients/etcd/member.ts'
import {
  EVENT_DELETE,
  type KeyValue,
  type WatchEvent,
  type WatchResponse,
} from '../../clients/etcd/messages.ts'
import type { Context } from './context.ts'
import type { Entry } from './entries.ts'
import { inOrder } from './transactions.ts'

export interface Told {
  /** Once: it is the first, or its place is gone. */
  ended(what: 'first' | 'vanished'): void
  /** After each look: who is the first instead. */
  seen(first: KeyValue): void
  /** etcd has answered no look for a while, and does not answer now. */
  unanswered(error: unknown): void
}

const POLL_MS = 1000
/** Longer than from one look to the next. An answered look counts alone: a member that is cut off sends events. */
const SILENT_MS = 1500
/** A name for which nobody waits is not watched longer. */
const LINGER_MS = 1000
const REOPEN_MS = 100
/** So many reads in a row that know better than the list: the watch has lost its way. */
const LAGS_MAX = 2

export class NameWatch {
  readonly #context: Context
  readonly #lockName: string
  readonly #onIdle: () => void
  readonly #waiting = new Map<string, Readonly<{ entry: Entry; told: Told }>>()
  readonly #listeners = new Set<() => void>()
  /** By key, in the order of creation; null: not read yet. */
  #places: Map<string, string> | null = null
  #revision = 0n
  #early: WatchEvent[] = []
  #stream: Stream<unknown> | null = null
  #endpoint = ''
  /** Answers of a stream, or a read, of before are not listened to. */
  #epoch = 0
  #lags = 0
  #cancelTimer: (() => void) | null = null
  #isPolling = false
  #polledAtMs = Number.NEGATIVE_INFINITY
  /** When etcd last answered a look, or made a place of ours. */
  #answeredAtMs = 0

  constructor(context: Context, lockName: string, onIdle: () => void) {
    this.#context = context
    this.#lockName = lockName
    this.#onIdle = onIdle
  }

  /** @returns What ends the waiting. */
  wait(entry: Entry, told: Told): () => void {
    const id = idOf(entry.key)
    this.#waiting.set(id, { entry, told })
    this.#answeredAtMs = this.#context.seams().nowMs()
    this.#start()
    this.#check(id)
    this.#tellFirst()
    return () => {
      if (this.#waiting.get(id)?.entry === entry) this.#waiting.delete(id)
      this.#idleSoon()
    }
  }

  /** Calls `changed` when a place is given up, or its value changes. */
  listen(changed: () => void): () => void {
    this.#listeners.add(changed)
    this.#start()
    if (this.#places?.size === 0) changed()
    return () => {
      this.#listeners.delete(changed)
      this.#idleSoon()
    }
  }

  close(): void {
    this.#epoch += 1
    this.#cancelTimer?.()
    this.#cancelTimer = null
    this.#stream?.end()
    this.#stream = null
    this.#places = null
  }

  get #isIdle(): boolean {
    return this.#waiting.size === 0 && this.#listeners.size === 0
  }

  #start(): void {
    if (this.#stream === null && this.#places === null && this.#cancelTimer === null) this.#open()
    this.#planPoll()
  }

  #open(): void {
    const { client, keys } = this.#context
    this.#stream?.end()
    this.#epoch += 1
    const epoch = this.#epoch
    this.#places = null
    this.#early = []
    this.#lags = 0
    this.#endpoint = client.endpoint
    this.#stream = client.watch(
      { create_request: keys.rangeOf(this.#lockName) },
      (response) => {
        if (epoch === this.#epoch) this.#onResponse(response)
      },
      (error) => {
        if (epoch !== this.#epoch) return
        this.#tellUnanswered(error)
        this.#reopen()
      },
    )
  }

  /** W3. Not at once: a member that is not there would be asked without a pause. */
  #reopen(): void {
    const { seams } = this.#context
    this.#epoch += 1
    this.#stream?.end()
    this.#stream = null
    this.#cancelTimer?.()
    this.#cancelTimer = seams().after(REOPEN_MS, () => {
      this.#cancelTimer = null
      if (this.#isIdle) return this.#onIdle()
      this.#open()
      // A watch that breaks again and again must not put the reads off for ever.
      if (seams().nowMs() - this.#polledAtMs >= POLL_MS && !this.#isPolling) void this.#poll()
      else this.#planPoll()
    })
  }

  #onResponse(response: WatchResponse): void {
    if (response.canceled) return this.#reopen()
    if (response.created) void this.#read(this.#epoch)
    const events = response.events ?? []
    if (events.length === 0) return
    if (this.#places === null) {
      this.#early.push(...events)
      return
    }
    // All of them first: those of one revision come together, and are one change.
    this.#apply(events)
    this.#tellFirst()
  }

  async #read(epoch: number): Promise<void> {
    const { client, keys } = this.#context
    const request = { ...inOrder(keys.rangeOf(this.#lockName)), keys_only: true }
    try {
      const { kvs = [], header } = await client.read('Range', request, POLL_MS, 'a look at a queue')
      if (epoch !== this.#epoch) return
      this.#answeredAtMs = this.#context.seams().nowMs()
      this.#places = new Map(kvs.map(({ key, create_revision }) => [idOf(key), create_revision]))
      this.#revision = BigInt(header?.revision ?? 0)
      this.#apply(this.#early)
      this.#early = []
      for (const id of [...this.#waiting.keys()]) this.#check(id)
      if (this.#places?.size === 0) this.#tellChanged()
      this.#tellFirst()
    } catch (error) {
      // Asked again, of another member perhaps.
      if (epoch !== this.#epoch) return
      this.#tellUnanswered(error)
      this.#reopen()
    }
  }

  #apply(events: readonly WatchEvent[]): void {
    const places = this.#places
    if (places === null) return
    let isChanged = false
    const builtAt = this.#revision
    for (const { type, kv } of events) {
      const revision = BigInt(kv.mod_revision)
      // In the list already; of one revision there may be several events.
      if (revision <= builtAt) continue
      this.#revision = revision
      const id = idOf(kv.key)
      if (type === EVENT_DELETE) {
        places.delete(id)
        isChanged = true
        this.#vanished(id)
      } else if (places.has(id)) isChanged = true
      else places.set(id, kv.create_revision)
    }
    if (isChanged) this.#tellChanged()
  }

  #head(): [id: string, createRevision: string] | undefined {
    return this.#places?.entries().next().value
  }

  /** Whether its place is in a list that must contain it. */
  #check(id: string): void {
    const waiting = this.#waiting.get(id)
    if (!waiting || this.#places === null) return
    const { createRevision } = waiting.entry
    if (createRevision > this.#revision) return
    if (this.#places.get(id) !== createRevision.toString()) this.#vanished(id)
  }

  #vanished(id: string): void {
    const waiting = this.#waiting.get(id)
    if (!waiting) return
    this.#waiting.delete(id)
    waiting.told.ended('vanished')
  }

  #tellFirst(): void {
    const [id, createRevision] = this.#head() ?? []
    if (id !== undefined) this.#tellIfFirst(id, createRevision)
  }

  #tellIfFirst(id: string, createRevision: string | undefined): void {
    const waiting = this.#waiting.get(id)
    // W2: a place of before, of the same owner, was another place.
    if (!waiting || waiting.entry.createRevision.toString() !== createRevision) return
    this.#waiting.delete(id)
    waiting.told.ended('first')
  }

  /** Those whose places are not newer than the look. */
  #tellSeen(first: KeyValue, revision: bigint): void {
    for (const { entry, told } of [...this.#waiting.values()]) {
      if (entry.createRevision <= revision) told.seen(first)
    }
  }

  #tellUnanswered(error: unknown): void {
    if (this.#context.seams().nowMs() - this.#answeredAtMs < SILENT_MS) return
    for (const { told } of [...this.#waiting.values()]) told.unanswered(error)
  }

  #tellChanged(): void {
    for (const changed of [...this.#listeners]) changed()
  }

  #planPoll(): void {
    if (this.#cancelTimer !== null || this.#isPolling) return
    this.#cancelTimer = this.#context.seams().after(POLL_MS, () => {
      this.#cancelTimer = null
      if (this.#isIdle) this.#onIdle()
      else void this.#poll()
    })
  }

  /** W3. */
  async #poll(): Promise<void> {
    const { client, keys, seams } = this.#context
    const epoch = this.#epoch
    this.#isPolling = true
    this.#polledAtMs = seams().nowMs()
    const request = inOrder(keys.rangeOf(this.#lockName), 1)
    try {
      const { kvs = [], header } = await client.read('Range', request, POLL_MS, 'a look at a queue')
      this.#isPolling = false
      this.#answeredAtMs = seams().nowMs()
      if (epoch !== this.#epoch) return
      const [first] = kvs
      const [known] = this.#head() ?? []
      const isBehind = this.#places === null || known !== (first && idOf(first.key))
      this.#lags = isBehind ? this.#lags + 1 : 0
      if (first) this.#tellIfFirst(idOf(first.key), first.create_revision)
      if (first) this.#tellSeen(first, BigInt(header?.revision ?? 0))
      if (this.#endpoint !== client.endpoint || this.#lags >= LAGS_MAX) this.#reopen()
    } catch (error) {
      this.#isPolling = false
      this.#tellUnanswered(error)
      if (epoch === this.#epoch && this.#endpoint !== client.endpoint) this.#reopen()
    }
    this.#planPoll()
  }

  #idleSoon(): void {
    if (!this.#isIdle || this.#cancelTimer !== null || this.#isPolling) return
    this.#cancelTimer = this.#context.seams().after(LINGER_MS, () => {
      this.#cancelTimer = null
      if (this.#isIdle) this.#onIdle()
      else this.#planPoll()
    })
  }
}

/** One character for each byte: keys of others need not be UTF-8. */
function idOf(key: Buffer): string {
  return key.toString('latin1')
}
