/** Random steps to the model and to a real Redis, until they differ or all are done. */

import type { Redis } from 'ioredis'
import type { RedisScript } from '../../../src/clients/redis.ts'
import { KeySpace } from '../../../src/sim/node/keyspace.ts'
import type { ScriptModel } from '../../../src/sim/node/scripts/model.ts'
import { judge } from './judge.ts'
import type { Seen, Server } from './server.ts'
import type { Step, Steps } from './steps.ts'

/** Databases of the server, each with steps of its own: a transaction asks all of them at once. */
const DATABASES = 16
/** A key that ends so soon is waited for. */
const SOON_MS = 30
const SEEDS_PER_RUN = 1000

export interface DifferentialOptions {
  /** A connection that is used for nothing else; the server has nothing else to do either. */
  readonly redis: Redis
  readonly server: Server
  readonly models: ReadonlyMap<string, ScriptModel>
  /** One for each database. */
  readonly stepsFor: (seed: number, keys: KeySpace, runId: string) => Steps
  readonly seed: number
  /** How many steps at most. */
  readonly steps: number
}

export interface Outcome {
  readonly steps: number
  /** How often each script gave each kind of reply: `hand-over: freed`. */
  readonly replies: ReadonlyMap<string, number>
  /** How many keys ended while they were watched. */
  readonly ended: number
  readonly published: number
  /** What differs first, with the seed and the steps of that database; null: nothing. */
  readonly difference: string | null
}

interface Lane {
  readonly keys: KeySpace
  readonly source: Steps
  readonly history: string[]
}

export async function runDifferential(options: DifferentialOptions): Promise<Outcome> {
  const { redis, server, models, stepsFor, seed, steps } = options
  await server.clear()
  const runId = await server.runId()
  const lanes = Array.from({ length: DATABASES }, (_, index): Lane => {
    const keys = new KeySpace()
    return { keys, source: stepsFor(seed * SEEDS_PER_RUN + index, keys, runId), history: [] }
  })
  const replies = new Map<string, number>()
  let [done, ended, published] = [0, 0, 0]
  for (let round = 0; done < steps; round++) {
    const weather = weatherOf(round)
    const drawn = lanes.map(({ source }) => source.next(weather !== 'calm'))
    await make(redis, weather)
    const seen = await server.run(drawn, weather !== 'out of memory')
    await make(redis, 'calm', weather)
    const isReadOnly = weather === 'read-only'
    const isOutOfMemory = weather === 'out of memory'
    const condition = { models, runId, isReadOnly, isOutOfMemory, replicaCount: 0 }
    for (const [index, lane] of lanes.entries()) {
      const [step, one] = [drawn[index] as Step, seen[index] as Seen]
      lane.history.push(textOf(step))
      const different = judge(lane.keys, step, one, condition)
      done += 1
      published += one.published.length
      if (different === null) count(replies, step, one.reply)
      else {
        const difference = told(options, index, lane, different)
        return { steps: done, replies, ended, published, difference }
      }
    }
    const ending = endingSoon(seen)
    await server.untilGone(ending)
    ended += ending.length
  }
  return { steps: done, replies, ended, published, difference: null }
}

type Weather = 'calm' | 'out of memory' | 'read-only'

function weatherOf(round: number): Weather {
  if (round % 40 === 20) return 'out of memory'
  return round % 160 === 90 ? 'read-only' : 'calm'
}

async function make(redis: Redis, weather: Weather, before: Weather = 'calm'): Promise<void> {
  if (weather === 'out of memory') await redis.config('SET', 'maxmemory', '1')
  if (weather === 'read-only') await redis.replicaof('127.0.0.1', '1')
  if (before === 'out of memory') await redis.config('SET', 'maxmemory', '0')
  if (before === 'read-only') await redis.replicaof('NO', 'ONE')
}

function endingSoon(seen: readonly Seen[]): (readonly [database: number, key: string])[] {
  return seen.flatMap(({ keys, toUs }, database) =>
    [...keys]
      .filter(([, { expiresAtMs }]) => expiresAtMs !== -1 && expiresAtMs < toUs / 1000 + SOON_MS)
      .map(([key]) => [database, key] as const),
  )
}

function count(replies: Map<string, number>, step: Step, reply: unknown): void {
  if (step.kind !== 'script') return
  const name = `${step.script.name}: ${kindOf(step.script, reply)}`
  replies.set(name, (replies.get(name) ?? 0) + 1)
}

/** Scripts that answer with a list whose first element says nothing. */
const LISTS = ['list', 'facts', 'state', 'counters']

function kindOf({ name }: RedisScript, reply: unknown): string {
  if (reply instanceof Error) return reply.message.split(' ')[0] ?? ''
  if (LISTS.includes(name)) return 'a list'
  const [first, second]: unknown[] = Array.isArray(reply) ? reply : [reply]
  const text = String(first)
  // Of a marker the rest is chance; of an amnesia the reason counts.
  if (text.startsWith('hfm1:')) return text.slice(0, 'hfm1:v'.length)
  if (text === 'amnesia') return `amnesia ${second}`
  if (name !== 'acquire' || Array.isArray(reply)) return text
  return typeof first === 'number' ? 'a token as a number' : 'a token as text'
}

function textOf(step: Step): string {
  return JSON.stringify(step.kind === 'script' ? { ...step, script: step.script.name } : step)
}

/** Enough to read what happened, and to see it again. */
function told(
  { seed }: DifferentialOptions,
  index: number,
  lane: Lane,
  difference: string,
): string {
  const last = lane.history.slice(-6).map((step) => `  ${step}`)
  return [
    `seed ${seed}, database ${index}, step ${lane.history.length}: ${difference}`,
    ...last,
  ].join('\n')
}
