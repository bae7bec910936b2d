/**
 * A Redis server as far as our scripts can tell: keys that expire by a wall clock of its own, scripts
 * known by their SHA-1, channels, and the accidents of servers.
 *
 * Guarantee: the same scripts at the same times give the same replies, keys and messages as Redis 7.0
 * gives for their Lua text. test/faults/redis-model.test.ts compares the two over random requests.
 *
 * Not here: how long anything takes, the network, replication, clusters, rights, and whatever no
 * script of ours uses.
 */
import { assert } from '../../core/assert.ts'
import type { Seams } from '../../core/seams.ts'
import { sha1, toBytes, toText } from './bytes.ts'
import { NodeClock } from './clock.ts'
import { KeySpace } from './keyspace.ts'
import { ReplyError, ScriptRun, type ScriptWorld } from './script-run.ts'
import { SCRIPT_MODELS } from './scripts/index.ts'
import type { Part, Reply } from './scripts/model.ts'

/** EVAL and EVALSHA, as a client sends them; texts are UTF-8 on the wire. */
export interface ScriptCall {
  readonly kind: 'eval' | 'evalsha'
  /** The Lua text, or its SHA-1. */
  readonly script: string
  readonly keys: readonly string[]
  readonly args: readonly string[]
}

/** What a node tells its connections. */
export interface ConnectionEvents {
  onMessage(channel: string, message: string): void
  onClosed(): void
  /** The node can be reached again. */
  onOpened(): void
}

export class RedisNode {
  readonly clock: NodeClock
  readonly keys: KeySpace = new KeySpace()
  /** A replica since a failover: it takes no writes. */
  isReadOnly = false
  /** `maxmemory` is used up, and the policy is noeviction. */
  isOutOfMemory = false
  /** Replicas that are connected; nothing is copied to them here. */
  replicaCount = 0
  readonly #seams: Seams
  readonly #known = new Set<string>()
  readonly #connections = new Map<ConnectionEvents, Set<string>>()
  #startCount = 0
  #isUp = true
  #runId: string

  constructor(seams: Seams) {
    this.#seams = seams
    this.clock = new NodeClock(() => seams.nowMs(), Math.floor(seams.wallMs() * 1000))
    this.#runId = this.#nextRunId()
  }

  get isUp(): boolean {
    return this.#isUp
  }

  /** 40 hexadecimal digits, others after each start. */
  get runId(): string {
    return this.#runId
  }

  /** @throws ReplyError with what the server answers in place of a reply. */
  execute({ kind, script, keys, args }: ScriptCall): unknown {
    assert(this.#isUp, 'a node that is down executes nothing')
    const name = kind === 'eval' ? sha1(toBytes(script)) : script
    if (kind === 'evalsha' && !this.#known.has(name)) {
      throw new ReplyError('NOSCRIPT No matching script. Please use EVAL.')
    }
    const model = SCRIPT_MODELS.get(name)
    // Not an error of a store, which the engine would take for an unknown outcome.
    if (model === undefined) throw new TypeError(`the script ${name} has no model`)
    this.#known.add(name)
    try {
      const reply = model(new ScriptRun(this.#world()), keys.map(toBytes), args.map(toBytes))
      return decoded(reply)
    } catch (error) {
      if (!(error instanceof ReplyError)) throw error
      throw new ReplyError(`${error.message} script: ${name}, on @user_script:1.`)
    }
  }

  connect(events: ConnectionEvents): void {
    this.#connections.set(events, new Set())
  }

  disconnect(events: ConnectionEvents): void {
    this.#connections.delete(events)
  }

  subscribe(events: ConnectionEvents, channel: string): void {
    this.#connections.get(events)?.add(channel)
  }

  unsubscribe(events: ConnectionEvents, channel: string): void {
    this.#connections.get(events)?.delete(channel)
  }

  /** Keys that never end by themselves, as text. */
  keysWithoutEnd(): string[] {
    const all = this.keys.all(Math.floor(this.clock.nowUs() / 1000))
    return all.filter(([, { expiresAtMs }]) => expiresAtMs === null).map(([key]) => toText(key))
  }

  /** FLUSHALL, or data that are gone for another reason, while the server runs on. */
  loseData(): void {
    this.keys.clear()
  }

  /** SCRIPT LOAD, of every script that has a model. */
  loadScripts(): void {
    for (const name of SCRIPT_MODELS.keys()) this.#known.add(name)
  }

  /** SCRIPT FLUSH. */
  forgetScripts(): void {
    this.#known.clear()
  }

  /** All connections end, with their subscriptions. */
  stop(): void {
    assert(this.#isUp, 'the node is down already')
    this.#isUp = false
    for (const [events, channels] of [...this.#connections]) {
      channels.clear()
      events.onClosed()
    }
  }

  /** @param keepsData As with everything on disk; otherwise it comes back empty. */
  start(keepsData: boolean): void {
    assert(!this.#isUp, 'the node is up already')
    this.#isUp = true
    this.#known.clear()
    this.#runId = this.#nextRunId()
    if (!keepsData) this.keys.clear()
    for (const events of [...this.#connections.keys()]) events.onOpened()
  }

  #nextRunId(): string {
    this.#startCount += 1
    return sha1(`${this.#startCount} ${this.#seams.nonce()}`)
  }

  #world(): ScriptWorld {
    return {
      keys: this.keys,
      runId: this.#runId,
      isReadOnly: this.isReadOnly,
      isOutOfMemory: this.isOutOfMemory,
      replicaCount: this.replicaCount,
      nowUs: this.clock.nowUs(),
      publish: (channel, message) => this.#publish(toText(channel), toText(message)),
    }
  }

  #publish(channel: string, message: string): void {
    for (const [events, channels] of [...this.#connections]) {
      if (channels.has(channel)) events.onMessage(channel, message)
    }
  }
}

/** As a client gives it: a list of Lua ends before its first nil. */
export function decoded(reply: Reply): unknown {
  if (typeof reply !== 'object' || reply === null) return decodedPart(reply)
  const end = reply.indexOf(null)
  return reply.slice(0, end < 0 ? reply.length : end).map(decodedPart)
}

function decodedPart(part: Part): unknown {
  return typeof part === 'string' ? toText(part) : part
}
