/**
 * Contenders that sleep until any node tells that the name may be free; the slow poll of the engine is
 * what they can rely on.
 */
import { type OpenSubscriber, subscriberOf } from '../../clients/redis-subscriber.ts'
import { aborted, RedisWakeUps } from '../../clients/redis-wake-ups.ts'
import type { Seams } from '../../core/seams.ts'
import type { RedisKeys } from '../../wire/keys.ts'
import type { NodePort } from './node-port.ts'
import { AWAIT } from './scripts/look.ts'

/** Forgetting one costs a mark that reads as another process's, for 2 s at most. */
const WAITERS_MAX = 1000
const AWAIT_TIMEOUT_MS = 500

export class NodeWakeUps {
  readonly #keys: RedisKeys
  readonly #seams: () => Seams
  readonly #nodes: (NodeSleeps | null)[]
  /** Who was refused last and waits, by lock name: whoever subscribes for it leaves that mark. */
  readonly #waiters = new Map<string, string>()

  constructor(ports: readonly NodePort[], keys: RedisKeys, seams: () => Seams) {
    this.#keys = keys
    this.#seams = seams
    this.#nodes = ports.map((port) => this.#sleepsAt(port))
  }

  /** Whether any node can wake somebody up. */
  get canWake(): boolean {
    return this.#nodes.some((node) => node !== null)
  }

  rememberWaiter(lockName: string, waiter: string): void {
    if (this.#waiters.size >= WAITERS_MAX && !this.#waiters.has(lockName)) this.#waiters.clear()
    this.#waiters.set(lockName, waiter)
  }

  /** What a node's client puts before keys is part of its channels. */
  learn(node: number, lockName: string, sent: string): void {
    const sleeps = this.#nodes[node]
    if (sleeps == null || sleeps.clientPrefix !== null || sent === '') return
    sleeps.clientPrefix = sent.slice(0, sent.length - this.#keys.lock(lockName).length)
  }

  async sleep(lockName: string, signal: AbortSignal): Promise<void> {
    const awake = new AbortController()
    const end = (): void => awake.abort()
    signal.addEventListener('abort', end)
    const lock = this.#keys.lock(lockName)
    const sleeps = this.#nodes.flatMap((node) =>
      node === null || node.clientPrefix === null
        ? []
        : [node.wakeUps.sleep(node.clientPrefix + lock, awake.signal)],
    )
    if (signal.aborted) end()
    try {
      await (sleeps.length === 0 ? aborted(signal) : Promise.race(sleeps))
    } finally {
      signal.removeEventListener('abort', end)
      awake.abort()
    }
  }

  close(): void {
    for (const node of this.#nodes) node?.wakeUps.close()
  }

  #sleepsAt(port: NodePort): NodeSleeps | null {
    const { client, subscriber } = port.settings
    const open = subscriberOf(client, port.scripts.family, subscriber)
    return open && this.#opened(port, open)
  }

  #opened(port: NodePort, open: OpenSubscriber): NodeSleeps {
    const isTaken = async (channel: string): Promise<boolean> => {
      const start = `${sleeps.clientPrefix}${this.#keys.prefix}`
      const lockName = channel.slice(start.length)
      const keys = this.#keys.of(lockName)
      if (keys === null) return true
      const mark = this.#waiters.get(lockName) ?? ''
      const lockKeys = [keys.lock, keys.want]
      return (await port.ask(AWAIT, lockKeys, [mark], Number, AWAIT_TIMEOUT_MS)) === 1
    }
    const wakeUps = new RedisWakeUps(open, this.#seams, isTaken)
    const sleeps: NodeSleeps = { wakeUps, clientPrefix: null }
    return sleeps
  }
}

interface NodeSleeps {
  readonly wakeUps: RedisWakeUps
  clientPrefix: string | null
}
