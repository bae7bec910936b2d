/**
 * One question to all nodes, settled as soon as it is decided; what comes later is heard as well.
 *
 * Guarantees:
 * D1. It settles once, in the turn of the answer that decided, and never waits for a suspect node.
 * D2. Every answer and every failure is taken in, also after it settled; nothing rejects unhandled.
 */
import { InvariantError } from '../../core/assert.ts'
import { BackendUnavailableError, OutcomeUnknownError, type Vote } from '../../core/errors.ts'
import { type Asker, backlog, type NodeRequest } from './node-request.ts'
import { UNHEARD, type Voters } from './voters.ts'

/** `skipped`: not asked. `silent`: not waited for any more, and may still answer. */
export type NodeState = 'skipped' | 'pending' | 'yes' | 'no' | 'failed' | 'silent'

const ANSWERS = { yes: 'granted', no: 'held' } as const

export abstract class Round<T> implements Asker {
  readonly result: Promise<T>
  protected readonly voters: Voters
  protected readonly states: NodeState[] = []
  protected readonly requests: (NodeRequest | null)[] = []
  protected isSettled = false
  readonly #causes: unknown[] = []
  readonly #elapsedMs: number[] = []
  #isSending = true
  #resolve!: (result: T | Promise<T>) => void
  #reject!: (error: unknown) => void

  constructor(voters: Voters) {
    this.voters = voters
    this.result = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  /** The request for a node, or null: it is not asked. */
  protected abstract requestFor(node: number): NodeRequest | null
  /** Takes an answer in, early or late, and says what it is; a cause may be given by `blame`. */
  protected abstract take(node: number, reply: unknown, request: NodeRequest): NodeState
  /** Settles if it is decided; called when something changed, until it is settled. */
  protected abstract judge(): void
  /** No answer for as long as was to be waited, early or late. */
  protected onSilent(_node: number): void {}
  /** A request that ended without an answer, early or late. */
  protected onFailed(_node: number, _error: unknown): void {}

  /** Sends everything, and only then judges. */
  protected start(): void {
    const { ports } = this.voters
    for (let node = 0; node < ports.length; node++) {
      const request = this.requestFor(node)
      this.requests.push(request)
      if (request === null) {
        if (this.states[node] === undefined) this.states[node] = 'skipped'
        continue
      }
      this.#send(node, request)
    }
    this.#isSending = false
    this.judgeNow()
  }

  /** One more request to a node, in place of the one before. */
  protected askAgain(node: number, request: NodeRequest): void {
    this.requests[node] = request
    this.#send(node, request)
  }

  answered(request: NodeRequest, reply: unknown): void {
    const { node } = request
    try {
      const state = this.take(node, reply, request)
      if (this.requests[node] === request) {
        this.states[node] = state
        this.#elapsedMs[node] = this.voters.seams().nowMs() - request.sentAtMs
      }
      this.judgeNow()
    } catch (error) {
      this.reject(error)
    }
  }

  failed(request: NodeRequest, error: unknown): void {
    const { node } = request
    if (isBug(error)) return this.reject(error)
    if (this.requests[node] === request) {
      this.states[node] = 'failed'
      this.#causes[node] = error
      this.#elapsedMs[node] = this.#since(request)
    }
    this.onFailed(node, error)
    this.judgeNow()
  }

  silent(request: NodeRequest): void {
    const { node } = request
    if (this.requests[node] !== request) return
    this.onSilent(node)
    if (this.states[node] !== 'pending') return
    this.states[node] = 'silent'
    this.#causes[node] = new OutcomeUnknownError(
      `no answer within ${Math.round(request.timeoutMs)} ms`,
    )
    this.#elapsedMs[node] = this.#since(request)
    this.judgeNow()
  }

  protected resolve(result: T | Promise<T>): void {
    this.isSettled = true
    this.#resolve(result)
  }

  protected reject(error: unknown): void {
    this.isSettled = true
    this.#reject(error)
  }

  /** Why a node counts as failed although it answered, or was not asked. */
  protected blame(node: number, cause: unknown): void {
    this.#causes[node] = cause
  }

  count(state: NodeState): number {
    let count = 0
    for (const one of this.states) if (one === state) count += 1
    return count
  }

  /** Each node's answer so far, in the order of their names. */
  votes(): Vote[] {
    const votes: Vote[] = []
    for (const { index, name } of this.voters.ports) {
      const state = this.states[index] ?? 'skipped'
      if (state === 'skipped') continue
      const elapsedMs = this.#elapsedMs[index] ?? 0
      const answer = state === 'yes' || state === 'no' ? ANSWERS[state] : 'failed'
      const cause = state === 'pending' ? UNHEARD : this.#causes[index]
      votes.push({ node: name, answer, elapsedMs, ...(cause === undefined ? {} : { cause }) })
    }
    return votes
  }

  /** Whether any node has carried it out, or may have. */
  mayBeApplied(): boolean {
    return this.votes().some(({ cause }) => !(cause instanceof BackendUnavailableError))
  }

  #send(node: number, request: NodeRequest): void {
    const port = this.voters.ports[node]
    this.states[node] = 'pending'
    if (port === undefined) return
    if (!port.send(request)) {
      this.states[node] = 'failed'
      this.#causes[node] = backlog(port.name)
      this.onFailed(node, this.#causes[node])
    } else if (port.isSuspect) {
      this.states[node] = 'silent'
      this.#causes[node] = new OutcomeUnknownError('it left earlier requests unanswered')
    }
  }

  #since(request: NodeRequest): number {
    const elapsedMs = this.voters.seams().nowMs() - request.sentAtMs
    return Number.isNaN(elapsedMs) ? 0 : elapsedMs
  }

  /** A mistake of ours rejects. */
  protected judgeNow(): void {
    if (this.isSettled || this.#isSending) return
    try {
      this.judge()
    } catch (error) {
      this.reject(error)
    }
  }
}

/** A mistake in code, ours or the client's: never taken for a failing node. */
function isBug(error: unknown): boolean {
  return (
    error instanceof InvariantError ||
    error instanceof TypeError ||
    error instanceof RangeError ||
    error instanceof ReferenceError ||
    error instanceof SyntaxError
  )
}
