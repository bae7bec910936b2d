/**
 * Connections to the nodes of a Redlock that are ours: one to each, made, watched and ended here.
 *
 * Guarantee: `openRedlock` either gives locks of which a quorum of the nodes was connected, or has ended
 * all that it began. A node that is away keeps nobody waiting: its driver goes on trying, and it votes
 * once it is there.
 */
import { quorumOf } from '../backends/redlock/marker.ts'
import { redlockBackend } from '../backends/redlock/redlock-backend.ts'
import { BackendUnavailableError } from '../core/errors.ts'
import { systemSeams } from '../core/seams.ts'
import { type Reason, reasonOf, withoutSecrets } from './failure.ts'
import { type Connection, loggedIn } from './redis.ts'
import { secretsOf } from './redis-target.ts'
import type { NodeTarget, RedlockTarget } from './redlock-target.ts'
import { RunIdReader } from './run-id.ts'
import type { Store } from './store.ts'
import { Watch } from './watch.ts'

/** Once a quorum is there: for nodes of which nothing has been heard, so that all take part at once. */
const OTHERS_MS = 500

type Node = {
  readonly target: NodeTarget
  readonly connection: Connection
  readonly watch: Watch
  readonly runId: RunIdReader
  isReady: boolean
  last: Readonly<{ error: unknown; reason: Reason }> | null
}

/**
 * @param make A client that is not connected yet.
 * @throws BackendUnavailableError when no quorum is connected within the time, or never will be;
 *   `signal.reason` when it aborts.
 */
export async function openRedlock(
  target: RedlockTarget,
  make: (node: NodeTarget) => Connection,
  signal: AbortSignal | undefined,
): Promise<Store> {
  const opening = new Opening(target, make)
  try {
    await opening.until(signal)
    return opening.store()
  } catch (error) {
    opening.end()
    throw error
  }
}

class Opening {
  readonly #target: RedlockTarget
  readonly #quorum: number
  readonly #nodes: Node[] = []
  #judge: () => void = () => undefined

  constructor(target: RedlockTarget, make: (node: NodeTarget) => Connection) {
    this.#target = target
    this.#quorum = quorumOf(target.nodes.length)
    for (const node of target.nodes) this.#nodes.push(this.#begun(node, make(node)))
  }

  /** Rejects when too few nodes are there; whoever asked has to end them all then. */
  async until(signal: AbortSignal | undefined): Promise<void> {
    const cancels: (() => void)[] = []
    const after = (delayMs: number, fn: () => void): void => {
      cancels.push(systemSeams.after(delayMs, fn, true))
    }
    try {
      await new Promise<void>((resolve, reject) => {
        const onAbort = (): void => reject(signal?.reason)
        if (signal?.aborted) onAbort()
        signal?.addEventListener('abort', onAbort)
        cancels.push(() => signal?.removeEventListener('abort', onAbort))
        const { connectTimeoutMs } = this.#target
        after(connectTimeoutMs, () => {
          if (this.#readyCount >= this.#quorum) resolve()
          else reject(this.#failure(` within ${connectTimeoutMs} ms`))
        })
        let isWaitingForOthers = false
        this.#judge = () => {
          if (this.#isHopeless) return reject(this.#failure(''))
          if (this.#readyCount < this.#quorum) return
          if (this.#nodes.every(({ isReady, last }) => isReady || last !== null)) return resolve()
          if (!isWaitingForOthers) after(OTHERS_MS, resolve)
          isWaitingForOthers = true
        }
        for (const node of this.#nodes) this.#connect(node)
      })
    } finally {
      this.#judge = () => undefined
      for (const cancel of cancels) cancel()
    }
  }

  store(): Store {
    const nodes = this.#nodes.map(({ target, connection }) => [target.name, connection.client])
    const backend = redlockBackend(Object.fromEntries(nodes), this.#target.options)
    for (const { watch } of this.#nodes) watch.warnThrough(backend)
    return { backend, end: () => this.end() }
  }

  end(): void {
    for (const { watch, connection, runId } of this.#nodes) {
      runId.end()
      watch.end(connection)
    }
  }

  #begun(target: NodeTarget, connection: Connection): Node {
    const watch = new Watch(target, (error) => this.#noted(node, error))
    const runId = new RunIdReader(connection)
    const node: Node = { target, connection, watch, runId, isReady: false, last: null }
    connection.listen(watch.onError, () => {
      watch.onReady()
      runId.onReady()
      loggedIn(target, connection).then(
        () => {
          node.isReady = true
          this.#judge()
        },
        (error: unknown) => this.#noted(node, error),
      )
    })
    return node
  }

  /** Both drivers try again by themselves, also where the first try has failed. */
  #connect(node: Node): void {
    node.connection.connect().catch((error: unknown) => this.#noted(node, error))
  }

  #noted(node: Node, error: unknown): void {
    const reason = reasonOf(error)
    // "Connection is closed" says less than what was said before it.
    if (node.last === null || reason.isKnown) node.last = { error, reason }
    this.#judge()
  }

  get #readyCount(): number {
    return this.#nodes.filter(({ isReady }) => isReady).length
  }

  get #isHopeless(): boolean {
    const lost = this.#nodes.filter(({ isReady, last }) => !isReady && last?.reason.isFinal)
    return lost.length > this.#nodes.length - this.#quorum
  }

  #failure(within: string): BackendUnavailableError {
    const away = this.#nodes.filter(({ isReady }) => !isReady)
    const words = away.map(({ target, last }) => {
      const reason = last?.reason ?? reasonOf(undefined)
      return `"${target.name}": ${reason.words}`
    })
    const need = `${this.#quorum} of ${this.#nodes.length} are needed`
    const text = `no connection to enough nodes${within}, ${need}: ${words.join('; ')}`
    const told = away.filter(({ last }) => last !== null)
    const [why = 'down', ...more] = new Set(told.map(({ last }) => last?.reason.why))
    const cause = told[0] && withoutSecrets(told[0].last?.error, secretsOf(told[0].target))
    return new BackendUnavailableError(
      more.length === 0 ? why : 'no-quorum',
      text,
      cause && { cause },
    )
  }
}
