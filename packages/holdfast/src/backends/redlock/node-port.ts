/**
 * One node, as all requests of a backend reach it: bounded in what is under way, whatever the node and
 * the client do.
 *
 * Guarantees:
 * N1. Nothing piles up. A node that leaves a request unanswered is suspect: nobody waits for it, and
 *     with 8 requests unanswered it is sent nothing but a probe a second, 4 of them at most. A node
 *     that answers may have as many under way as it has kept up with, 8 to begin with, 1,024 at most;
 *     what is beyond that waits here, and not in the client. What is silent while others are answered, as
 *     on one of many connections of a pool, counts for the 1,024 alone.
 * N2. Nothing but cancels and releases is ever sent again (owed.ts); those once it answers, 8 at once.
 * N3. `sentAtMs` is read before the client is given a request.
 * N4. Each request is answered or fails once; it may be called silent before that.
 *
 * A blocked event loop looks like a silent node, because timers run before sockets are read: a node is
 * suspect only when it is found silent twice, some turns apart.
 */

import { type OwnConnection, ownConnectionOf } from '../../clients/own-connections.ts'
import { type RedisScript, type RedisScripts, scriptsOf } from '../../clients/redis.ts'
import { called } from '../../clients/redis-errors.ts'
import type { CancelTimer } from '../../core/clock.ts'
import { BackendUnavailableError, OutcomeUnknownError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import type { NodeAsker } from './admission-port.ts'
import { type Asker, backlog, Flight, NodeRequest } from './node-request.ts'
import type { NodeSettings } from './options.ts'
import { OwedRequests } from './owed.ts'
import { PROBE } from './scripts/probe.ts'

/** Unanswered by a suspect node; under way at any node to begin with. */
const UNANSWERED_MAX = 8
const WINDOW_MAX = 1024
/** Wait to be sent to a node that answers, but slower than it is asked. */
const WAITING_MAX = 10_000
const PROBE_EVERY_MS = 1000
const PROBES_MAX = 4
const OWED_AT_ONCE_MAX = 8
/** Between two looks at a node that seems silent. */
const TURNS_MS = 5

/** What a port tells of its node. */
export interface NodeEvents {
  /** The first request without an answer in time since it last answered. */
  onSuspect(port: NodePort): void
  /** The connection may lead elsewhere from now on. */
  onInterrupted(port: NodePort): void
}

export class NodePort implements NodeAsker {
  readonly name: string
  readonly index: number
  readonly isDurable: boolean
  readonly settings: NodeSettings
  readonly scripts: RedisScripts
  readonly owed: OwedRequests = new OwedRequests()
  readonly #seams: () => Seams
  readonly #events: NodeEvents
  readonly #own: OwnConnection | null
  readonly #flight = new Flight()
  /** The first of them is at `#waitingFrom`. */
  #waiting: NodeRequest[] = []
  #waitingFrom = 0
  #window = UNANSWERED_MAX
  #answers = 0
  #isSuspect = false
  #isClosed = false
  /** Of those under way: nobody waits for them any more. */
  #silentCount = 0
  #probesOut = 0
  #owedOut = 0
  /** Then the next probe comes before the next try. */
  #owedFailed = false
  #watch: { dueAtMs: number; cancel: CancelTimer } | null = null
  #seenSilent = false
  #cancelProbe: CancelTimer | null = null

  constructor(settings: NodeSettings, index: number, seams: () => Seams, events: NodeEvents) {
    this.settings = settings
    this.name = settings.name
    this.isDurable = settings.isDurable
    this.index = index
    this.scripts = scriptsOf(settings.client)
    this.#own = ownConnectionOf(settings.client)
    this.#seams = seams
    this.#events = events
  }

  /** Whether nobody should wait for this node. */
  get isSuspect(): boolean {
    return this.#isSuspect
  }

  get unansweredCount(): number {
    return this.#flight.count + this.#probesOut + this.#owedOut
  }

  get #isFull(): boolean {
    const { count } = this.#flight
    if (this.#isSuspect) return count >= UNANSWERED_MAX
    return count - this.#silentCount >= this.#window || count >= WINDOW_MAX
  }

  get waitingCount(): number {
    return this.#waiting.length - this.#waitingFrom
  }

  /** @returns False when it was not, and will not be, sent; one that is owed is kept all the same. */
  send(request: NodeRequest): boolean {
    if (!this.#isFull && this.waitingCount === 0) {
      this.#dispatch(request)
      return true
    }
    if (this.#isSuspect || this.waitingCount >= WAITING_MAX) {
      this.#keep(request)
      return false
    }
    this.#waiting.push(request)
    return true
  }

  ask<T>(
    script: RedisScript,
    keys: string[],
    args: string[],
    read: (reply: unknown) => T,
    timeoutMs: number,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const asker: Asker = {
        answered: (_, reply) => {
          try {
            resolve(read(reply))
          } catch (error) {
            reject(error)
          }
        },
        failed: (_, error) => reject(error),
        silent: () => {
          const words = `${called(script.name)} had no answer from node "${this.name}" within ${timeoutMs} ms`
          reject(new OutcomeUnknownError(words))
        },
      }
      const request = new NodeRequest(script, keys, args, asker, this.index, timeoutMs)
      if (!this.send(request)) reject(backlog(this.name))
    })
  }

  /** No timer runs afterwards, and nothing is sent again. */
  close(): void {
    this.#isClosed = true
    this.#watch?.cancel()
    this.#cancelProbe?.()
    this.owed.clear()
  }

  #dispatch(request: NodeRequest): void {
    request.sentAtMs = this.#seams().nowMs()
    request.answersBefore = this.#answers
    this.#flight.add(request)
    this.#watchOver(request.sentAtMs + request.timeoutMs)
    this.scripts
      .run(request.script, request.keys, this.#argsOf(request), (reply) =>
        this.#onAnswer(request, reply),
      )
      .catch((error: unknown) => this.#onError(request, error))
  }

  /**
   * A script that votes is told the `run_id` where it is known, read in the turn of the sending: one
   * that waited here may be sent on another connection than it would have been.
   */
  #argsOf({ script, args }: NodeRequest): string[] {
    if (this.#own === null || script.runIdAt === undefined) return args
    const own = args.slice()
    own[script.runIdAt] = this.#own.runId()
    return own
  }

  #onAnswer(request: NodeRequest, reply: unknown): void {
    this.#landed(request)
    this.#answers += 1
    this.#isSuspect = false
    if (this.owed.size > 0) this.#sendOwed()
    if (this.waitingCount > 0) {
      if (this.#window < WINDOW_MAX) this.#window += 1
      this.#sendWaiting()
    }
    request.asker.answered(request, reply)
  }

  #onError(request: NodeRequest, error: unknown): void {
    // What the asker throws of an answer comes here too.
    if (this.#landed(request)) {
      this.#keep(request)
      if (mayLeadElsewhere(error)) this.#events.onInterrupted(this)
      if (this.waitingCount > 0) this.#sendWaiting()
    }
    request.asker.failed(request, error)
  }

  /** @returns False when it is not under way any more. */
  #landed(request: NodeRequest): boolean {
    if (!this.#flight.remove(request)) return false
    if (request.isSilent) this.#silentCount -= 1
    return true
  }

  #keep(request: NodeRequest): void {
    if (request.owedKey === null || this.#isClosed) return
    const { owedKey: key, script, keys, args } = request
    this.owed.put({ key, script, keys, args })
    this.#probeLater()
  }

  #sendWaiting(): void {
    while (this.waitingCount > 0 && !this.#isFull) {
      const request = this.#waiting[this.#waitingFrom] as NodeRequest
      this.#waitingFrom += 1
      if (!request.isDropped) this.#dispatch(request)
    }
    if (this.waitingCount === 0) this.#waiting = []
    else if (this.#waitingFrom < WAITING_MAX) return
    else this.#waiting = this.#waiting.slice(this.#waitingFrom)
    this.#waitingFrom = 0
  }

  /** The timer is set to the next look, not for each request. */
  #watchOver(dueAtMs: number): void {
    if (this.#watch !== null && this.#watch.dueAtMs <= dueAtMs) return
    this.#watch?.cancel()
    const { after, nowMs } = this.#seams()
    const cancel = after(Math.max(0, dueAtMs - nowMs()), () => {
      this.#watch = null
      this.#look()
    })
    this.#watch = { dueAtMs, cancel }
  }

  #look(): void {
    if (this.#isClosed) return
    const nowMs = this.#seams().nowMs()
    const overdue: NodeRequest[] = []
    let nextAtMs = Number.POSITIVE_INFINITY
    for (let one = this.#flight.oldest; one !== null; one = one.newer) {
      if (one.isSilent) continue
      const dueAtMs = one.sentAtMs + one.timeoutMs
      if (dueAtMs <= nowMs) overdue.push(one)
      else nextAtMs = Math.min(nextAtMs, dueAtMs)
    }
    if (overdue.length > 0 && !this.#seenSilent) {
      this.#seenSilent = true
      return this.#watchOver(nowMs + TURNS_MS)
    }
    this.#seenSilent = false
    if (nextAtMs !== Number.POSITIVE_INFINITY) this.#watchOver(nextAtMs)
    if (overdue.some((one) => one.answersBefore === this.#answers)) this.#suspect()
    for (const one of overdue) this.#callSilent(one)
    if (this.waitingCount > 0) this.#sendWaiting()
  }

  #callSilent(request: NodeRequest): void {
    if (request.isSilent) return
    request.isSilent = true
    this.#silentCount += 1
    request.asker.silent(request)
  }

  /** Whoever waits for this node is told so, whenever it asked. */
  #suspect(): void {
    const isNew = !this.#isSuspect
    this.#isSuspect = true
    this.#window = UNANSWERED_MAX
    const waiting = this.#waiting.slice(this.#waitingFrom)
    this.#waiting = []
    this.#waitingFrom = 0
    for (const one of waiting) {
      this.#keep(one)
      if (!one.isDropped) one.asker.failed(one, backlog(this.name))
    }
    const others: NodeRequest[] = []
    for (let one = this.#flight.oldest; one !== null; one = one.newer) others.push(one)
    for (const one of others) this.#callSilent(one)
    if (!isNew) return
    this.#events.onSuspect(this)
    this.#probeLater()
  }

  #probeLater(): void {
    if (this.#cancelProbe !== null || this.#isClosed) return
    this.#cancelProbe = this.#seams().after(PROBE_EVERY_MS, () => {
      this.#cancelProbe = null
      if (!this.#isSuspect && this.owed.size === 0) return
      this.#probe()
      this.#probeLater()
    })
  }

  /** Whatever is under way tells as much, unless the client has forgotten it. */
  #probe(): void {
    if (this.#probesOut >= PROBES_MAX) return
    if (this.owed.size === 0 && this.#flight.count < UNANSWERED_MAX) return
    this.#probesOut += 1
    const over = (): void => {
      this.#probesOut -= 1
    }
    const answered = (): void => {
      over()
      this.#answers += 1
      this.#isSuspect = false
      this.#owedFailed = false
      this.#sendOwed()
    }
    this.scripts.run(PROBE, [], [], answered).catch(over)
  }

  #sendOwed(): void {
    while (this.#owedOut < OWED_AT_ONCE_MAX && !this.#owedFailed && !this.#isClosed) {
      const owed = this.owed.take()
      if (owed === null) return
      this.#owedOut += 1
      this.scripts
        .run(owed.script, owed.keys, owed.args, () => {
          this.#owedOut -= 1
          this.#sendOwed()
        })
        .catch(() => {
          this.#owedOut -= 1
          this.#owedFailed = true
          this.owed.put(owed)
          this.#probeLater()
        })
    }
  }
}

/** Whether the connection ended: the next one may be to another server, or to one started anew. */
function mayLeadElsewhere(error: unknown): boolean {
  if (error instanceof OutcomeUnknownError) return true
  return (
    error instanceof BackendUnavailableError && (error.why === 'down' || error.why === 'loading')
  )
}
