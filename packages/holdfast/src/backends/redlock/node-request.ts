import type { RedisScript } from '../../clients/redis.ts'
import { BackendUnavailableError } from '../../core/errors.ts'

/** Hears what becomes of requests. Must not throw. */
export interface Asker {
  answered(request: NodeRequest, reply: unknown): void
  failed(request: NodeRequest, error: unknown): void
  /** No answer for as long as was to be waited; one may still come, and is then told as well. */
  silent(request: NodeRequest): void
}

/** One request to one node. An object of its own kind, because three are made for each acquire. */
export class NodeRequest {
  readonly script: RedisScript
  readonly keys: string[]
  readonly args: string[]
  readonly asker: Asker
  /** Which node, by its place in the sorted names. */
  readonly node: number
  readonly timeoutMs: number
  /** Under this key it is sent again if it ends without an answer; null: it never is. */
  readonly owedKey: string | null
  /** Read before the client was given it; NaN while it was not. */
  sentAtMs: number = Number.NaN
  /** Nobody is interested any more: if it waits to be sent, it is not. */
  isDropped = false
  isSilent = false
  /** How many answers the node had given when this was sent. */
  answersBefore = 0
  older: NodeRequest | null = null
  newer: NodeRequest | null = null

  constructor(
    script: RedisScript,
    keys: string[],
    args: string[],
    asker: Asker,
    node: number,
    timeoutMs: number,
    owedKey: string | null = null,
  ) {
    this.script = script
    this.keys = keys
    this.args = args
    this.asker = asker
    this.node = node
    this.timeoutMs = timeoutMs
    this.owedKey = owedKey
  }
}

/** Requests that are under way, in the order of sending. Adding and removing allocate nothing. */
export class Flight {
  count = 0
  oldest: NodeRequest | null = null
  #newest: NodeRequest | null = null

  add(request: NodeRequest): void {
    request.older = this.#newest
    if (this.#newest === null) this.oldest = request
    else this.#newest.newer = request
    this.#newest = request
    this.count += 1
  }

  /** @returns False when it is not under way any more. */
  remove(request: NodeRequest): boolean {
    const { older, newer } = request
    if (older === null && this.oldest !== request) return false
    if (older === null) this.oldest = newer
    else older.newer = newer
    if (newer === null) this.#newest = older
    else newer.older = older
    request.older = request.newer = null
    this.count -= 1
    return true
  }
}

/** Hears nothing: of requests that nobody waits for. */
export const NOBODY: Asker = {
  answered: () => undefined,
  failed: () => undefined,
  silent: () => undefined,
}

export function backlog(node: string): BackendUnavailableError {
  const words = `node "${node}" leaves requests unanswered; this one was not sent`
  return new BackendUnavailableError('backlog', words)
}
