/**
 * The structural client type that `redisBackend` takes, with a node behind it: ioredis, as the pages
 * advise to set it up (no offline queue, no resending, no retries).
 *
 * Between client and node lies what carries requests, replies and messages: a simulation delays, drops
 * and repeats there. A request of a connection that has ended does not arrive any more, and one whose
 * reply is out when the client learns that the connection ended is rejected then, in ioredis' words.
 */
import { EventEmitter } from 'node:events'
import type { ConnectionEvents, RedisNode, ScriptCall } from './node.ts'

/**
 * Calls `deliver` when the request arrives, as often as it arrives, and settles when a reply is back.
 *
 * @param call Null: a subscription, or its end.
 */
export type Carry = <T>(deliver: () => T, call: ScriptCall | null) => Promise<T>

/** A network without any fault. */
export const carryAtOnce: Carry = async (deliver) => deliver()

/**
 * Calls `run` when the client learns of what it did not ask for. A message may be lost; that a
 * connection ended or can be had again is learnt sooner or later, in the order in which it happened.
 */
export type Tell = (what: 'message' | 'closed' | 'opened', run: () => void) => void

const tellAtOnce: Tell = (_what, run) => run()

type Listener = (...args: unknown[]) => void

const CLOSED = 'Connection is closed.'
const OFFLINE = "Stream isn't writeable and enableOfflineQueue options is false"

export class NodeClient implements ConnectionEvents {
  readonly options: Readonly<Record<string, unknown>> = {
    enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  }
  readonly #node: RedisNode
  readonly #carry: Carry
  readonly #tell: Tell
  readonly #events = new EventEmitter()
  /** Rejects what has no reply yet. */
  readonly #pending = new Set<(error: Error) => void>()
  /** The connection that the node has, and the one that the client thinks it has. */
  #connection = 0
  #ownConnection = 0
  #status: 'ready' | 'reconnecting' | 'end'

  constructor(node: RedisNode, carry: Carry = carryAtOnce, tell: Tell = tellAtOnce) {
    this.#node = node
    this.#carry = carry
    this.#tell = tell
    this.#status = node.isUp ? 'ready' : 'reconnecting'
    node.connect(this)
  }

  get status(): string {
    return this.#status
  }

  eval(lua: string, keyCount: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.#run('eval', lua, keyCount, rest)
  }

  evalsha(sha1: string, keyCount: number, ...rest: (string | number)[]): Promise<unknown> {
    return this.#run('evalsha', sha1, keyCount, rest)
  }

  subscribe(channel: string): Promise<unknown> {
    return this.#send(() => this.#node.subscribe(this, channel), null)
  }

  unsubscribe(channel: string): Promise<unknown> {
    return this.#send(() => this.#node.unsubscribe(this, channel), null)
  }

  /** Another connection to the same node. */
  duplicate(): NodeClient {
    return new NodeClient(this.#node, this.#carry, this.#tell)
  }

  /** @param reconnect As of ioredis: the connection ends, and a new one is made at once. */
  disconnect(reconnect = false): void {
    if (this.#status === 'end') return
    this.#node.disconnect(this)
    this.#connection += 1
    this.#lose()
    if (reconnect) {
      this.#node.connect(this)
      if (this.#node.isUp) this.#have(this.#connection)
      return
    }
    this.#status = 'end'
    this.#events.emit('end')
  }

  on(event: string, listener: Listener): this {
    this.#events.on(event, listener)
    return this
  }

  off(event: string, listener: Listener): this {
    this.#events.off(event, listener)
    return this
  }

  onMessage(channel: string, message: string): void {
    const connection = this.#connection
    this.#tell('message', () => {
      if (connection === this.#connection) this.#events.emit('message', channel, message)
    })
  }

  onClosed(): void {
    this.#connection += 1
    this.#tell('closed', () => this.#lose())
  }

  onOpened(): void {
    const connection = this.#connection
    this.#tell('opened', () => this.#have(connection))
  }

  #lose(): void {
    if (this.#status === 'end') return
    this.#status = 'reconnecting'
    for (const reject of [...this.#pending]) reject(new Error(CLOSED))
    this.#events.emit('reconnecting')
  }

  #have(connection: number): void {
    if (this.#status === 'end' || connection !== this.#connection) return
    this.#ownConnection = connection
    this.#status = 'ready'
    this.#events.emit('ready')
  }

  #run(
    kind: ScriptCall['kind'],
    script: string,
    keyCount: number,
    rest: readonly (string | number)[],
  ): Promise<unknown> {
    const texts = rest.map(String)
    const call: ScriptCall = {
      kind,
      script,
      keys: texts.slice(0, keyCount),
      args: texts.slice(keyCount),
    }
    return this.#send(() => this.#node.execute(call), call)
  }

  #send<T>(onArrival: () => T, call: ScriptCall | null): Promise<T> {
    if (this.#status !== 'ready') {
      return Promise.reject(new Error(this.#status === 'end' ? CLOSED : OFFLINE))
    }
    const connection = this.#ownConnection
    return new Promise((resolve, reject) => {
      this.#pending.add(reject)
      const settle = (done: () => void): void => {
        this.#pending.delete(reject)
        done()
      }
      const carried = this.#carry(() => {
        if (connection !== this.#connection) throw new Error(CLOSED)
        return onArrival()
      }, call)
      carried.then(
        (reply) => settle(() => resolve(reply)),
        (error) => settle(() => reject(error)),
      )
    })
  }
}
