/** The nodes of a Redlock as models on virtual time, each behind a line that keeps back what a test picks. */
import {
  type RedlockLimits,
  redlockBackendWith,
} from '../../src/backends/redlock/redlock-backend.ts'
import type { RedisScript } from '../../src/clients/redis.ts'
import type { AcquireRequest, AcquireResult, Backend, Grant } from '../../src/core/backend.ts'
import type { RedlockNode } from '../../src/redlock.ts'
import { type Carry, NodeClient } from '../../src/sim/node/client.ts'
import { RedisNode, type ScriptCall } from '../../src/sim/node/node.ts'
import { createVirtualClock, seamsOf, type VirtualClock } from '../../src/testkit/virtual-clock.ts'
import { RedisKeys } from '../../src/wire/keys.ts'

/** Null: whatever is sent. */
type Picks = ReadonlySet<string> | null
type Kept = Readonly<{ go: () => void; fail: (error: Error) => void }>
type Gate = { picks: Picks; readonly kept: Kept[] }

/** What lies between the client and one node. Requests and replies may overtake each other. */
export class ModelLine {
  /** The scripts that arrived, by their SHA-1, in that order. */
  readonly arrived: string[] = []
  readonly #requests: Gate = { picks: new Set(), kept: [] }
  readonly #replies: Gate = { picks: new Set(), kept: [] }
  #refused: Picks = new Set()
  #refusal = new Error(OFFLINE)
  #alter: (reply: unknown, call: ScriptCall | null) => unknown = (reply) => reply
  /** How many requests the client refused. */
  refusedCount = 0

  readonly carry: Carry = async (deliver, call) => {
    if (isPicked(this.#refused, call)) {
      this.refusedCount += 1
      throw this.#refusal
    }
    await pass(this.#requests, call)
    if (call !== null) this.arrived.push(shaOf(call))
    const reply = deliver()
    await pass(this.#replies, call)
    return this.#alter(reply, call) as typeof reply
  }

  /** From now on requests of these scripts, or all, do not arrive until they are let go. */
  holdRequests(...scripts: RedisScript[]): void {
    this.#requests.picks = picksOf(scripts)
  }

  /** From now on the same for replies. */
  holdReplies(...scripts: RedisScript[]): void {
    this.#replies.picks = picksOf(scripts)
  }

  /** From now on the client does not send these scripts, or any, because it is not connected. */
  refuse(...scripts: RedisScript[]): void {
    this.failWith(new Error(OFFLINE), ...scripts)
  }

  /** From now on the client throws this where these scripts, or any, are asked for. */
  failWith(error: Error, ...scripts: RedisScript[]): void {
    this.#refusal = error
    this.#refused = picksOf(scripts)
  }

  /** From now on the server answers that script otherwise. */
  alter(script: RedisScript, change: (reply: unknown) => unknown): void {
    const picks = picksOf([script])
    this.#alter = (reply, call) => (isPicked(picks, call) ? change(reply) : reply)
  }

  /** Nothing more is kept back, or refused; what was kept stays away until `letGo`. */
  open(): void {
    this.#refused = new Set()
    this.#requests.picks = new Set()
    this.#replies.picks = new Set()
  }

  /** The requests that were kept back arrive now; replies stay away. */
  letRequestsGo(): void {
    this.#requests.picks = new Set()
    for (const { go } of this.#requests.kept.splice(0)) go()
  }

  /** The replies that were kept back come now; requests stay away. */
  letRepliesGo(): void {
    this.#replies.picks = new Set()
    for (const { go } of this.#replies.kept.splice(0)) go()
  }

  /** The connection ends: what was kept back has no answer, and never gets one. */
  fail(): void {
    this.open()
    const kept = [...this.#requests.kept.splice(0), ...this.#replies.kept.splice(0)]
    for (const one of kept) one.fail(new Error(CLOSED))
  }

  /** What was kept back comes now, in its order, and nothing more is kept. */
  letGo(): void {
    this.open()
    for (const { go } of [...this.#requests.kept.splice(0), ...this.#replies.kept.splice(0)]) go()
  }

  /** How many requests and replies are kept back. */
  get keptCount(): number {
    return this.#requests.kept.length + this.#replies.kept.length
  }

  count(script: RedisScript): number {
    return this.arrived.filter((sha1) => sha1 === script.sha1).length
  }
}

function picksOf(scripts: readonly RedisScript[]): Picks {
  if (scripts.length === 0) return null
  return new Set(scripts.flatMap(({ sha1, lua }) => [sha1, lua]))
}

function shaOf({ script }: ScriptCall): string {
  return script
}

function isPicked(picks: Picks, call: ScriptCall | null): boolean {
  return call !== null && (picks === null || picks.has(call.script))
}

async function pass({ picks, kept }: Gate, call: ScriptCall | null): Promise<void> {
  if (!isPicked(picks, call)) return
  await new Promise<void>((go, fail) => kept.push({ go, fail }))
}

export interface RedlockModel {
  readonly clock: VirtualClock
  readonly nodes: readonly RedisNode[]
  readonly lines: readonly ModelLine[]
  readonly backend: Backend
  /** An acquire of this owner, of whom one character is enough. */
  acquire(lockName: string, owner: string, ttlMs?: number): Promise<AcquireResult>
  /** Lets time pass until it is there. */
  settled<T>(promise: Promise<T>): Promise<T>
  granted(lockName: string, owner: string, ttlMs?: number): Promise<Grant>
  /** The value of each node, null where there is none. */
  values(lockName: string): (string | null)[]
  nowMs(node: number): number
}

/** As ioredis words them. */
const OFFLINE = "Stream isn't writeable and enableOfflineQueue options is false"
const CLOSED = 'Connection is closed.'

const STEP_MS = 10
const STEPS_MAX = 1000

export const NODE_TIMEOUT_MS = 100

/** Of these sources, or of others with a bug in them. */
export type RedlockMaker = typeof redlockBackendWith

export interface ModelOptions {
  /** Whether nodes are said to keep their data when they stop. */
  readonly durable?: boolean
  readonly limits?: RedlockLimits
  readonly make?: RedlockMaker
}

/** Nodes that vote, and know every script. */
export async function openModel(
  nodeCount: number,
  { durable = false, limits = {}, make = redlockBackendWith }: ModelOptions = {},
): Promise<RedlockModel> {
  const clock = createVirtualClock()
  const seams = seamsOf(clock)
  const nodes = Array.from({ length: nodeCount }, () => new RedisNode(seams))
  const lines = nodes.map(() => new ModelLine())
  const clients: Record<string, RedlockNode> = {}
  for (const [place, node] of nodes.entries()) {
    node.loadScripts()
    const client = new NodeClient(node, lines[place]?.carry)
    clients[String.fromCharCode(97 + place)] = { client, subscriber: false, durable }
  }
  const options = { onEmpty: 'fresh', nodeTimeoutMs: NODE_TIMEOUT_MS, maxTtlMs: 60_000 } as const
  const backend = make(seams, clients, options, limits)
  const nowMs = (node: number): number => Math.floor((nodes[node]?.clock.nowUs() ?? 0) / 1000)
  const model: RedlockModel = {
    ...{ clock, nodes, lines, backend, nowMs },
    acquire: (lockName, owner, ttlMs = 10_000) =>
      backend.tryAcquire(requestOf(lockName, owner, ttlMs)),
    async settled(promise) {
      let isOver = false
      const over = (): void => {
        isOver = true
      }
      promise.then(over, over)
      for (let step = 0; step < STEPS_MAX && !isOver; step++) {
        await clock.advance(step === 0 ? 0 : STEP_MS)
      }
      if (!isOver) throw new Error(`nothing came of it in ${STEPS_MAX * STEP_MS} ms`)
      return promise
    },
    async granted(lockName, owner, ttlMs) {
      const result = await model.settled(model.acquire(lockName, owner, ttlMs))
      if (result.kind !== 'granted') throw new Error(`"${lockName}" is ${result.kind}`)
      return result.grant
    },
    values: (lockName) =>
      nodes.map(({ keys }, node) => keys.find(`lock:${lockName}`, nowMs(node))?.value ?? null),
  }
  const first = await model.granted('first', '1')
  await model.settled(backend.release(first, 0))
  await clock.advance(STEP_MS)
  return model
}

export function requestOf(lockName: string, owner: string, ttlMs: number): AcquireRequest {
  return {
    ...{ lockName, owner: owner.padEnd(22, '_'), ttlMs, timeoutMs: 1000, lockDelayMs: 0 },
    ...{ waits: false, waiter: 'w'.repeat(22), holder: { host: 'test', pid: 1 } },
    onLost: () => undefined,
  }
}

/** The entry of a lock on each of these nodes, behind the back of whoever counts on it. */
export function loseEntry(model: RedlockModel, lockName: string, ...places: number[]): void {
  for (const place of places) {
    model.nodes[place]?.keys.remove(`lock:${lockName}`, model.nowMs(place))
  }
}

/** From now on the entry of a lock on this node lives so long. */
export function setLife(
  model: RedlockModel,
  place: number,
  lockName: string,
  lifeMs: number,
): void {
  const value = model.values(lockName)[place]
  if (value == null) throw new Error(`node ${place} has no "${lockName}"`)
  const expiresAtMs = model.nowMs(place) + lifeMs
  model.nodes[place]?.keys.put(`lock:${lockName}`, { type: 'string', value, expiresAtMs })
}

export function setCounter(
  model: RedlockModel,
  place: number,
  lockName: string,
  value: bigint,
): void {
  const key = new RedisKeys('lock:', false).of(lockName)?.counter ?? ''
  model.nodes[place]?.keys.put(key, { type: 'string', value: String(value), expiresAtMs: null })
}

/** On each node the first character of the owner, '-' for none. */
export function ownersOf(model: RedlockModel, lockName: string): string {
  return model
    .values(lockName)
    .map((value) => value?.slice(4, 5) ?? '-')
    .join('')
}
