/** The model of a Redis node, on which the simulation stands, against a real one. */
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { MODELLED_SCRIPTS, SCRIPT_MODELS } from '../../src/sim/node/scripts/index.ts'
import { stepsOfRedlock } from '../support/redis-differential/redlock-steps.ts'
import { runDifferential } from '../support/redis-differential/run.ts'
import { Server } from '../support/redis-differential/server.ts'
import { stepsOfRedis } from '../support/redis-differential/steps.ts'

const SEED = 1
const STEPS = 50_000
/** Every kind of reply that the headers of the scripts name, and the errors of Redis that may come. */
const OF_REDIS: Readonly<Record<string, readonly string[]>> = {
  acquire: [
    ...['a token as a number', 'a token as text', 'again', 'held', 'cancelled', 'not-a-lock'],
    ...['no-token', 'waiting', 'ERR', 'WRONGTYPE', 'OOM', 'READONLY'],
  ],
  admit: ['0', '1', 'WRONGTYPE'],
  'hand-over': ['handed-over', 'again', 'freed', 'not-held', 'no-token', 'WRONGTYPE', 'READONLY'],
  revoke: ['revoked', 'gone', 'cancelled', 'no-token', 'WRONGTYPE', 'OOM'],
  renew: ['renewed', 'expired', 'superseded', 'revoked'],
  release: ['0', '1', 'READONLY'],
  cancel: ['0', '1'],
  proclaim: ['proclaimed', 'not-held', 'too-long'],
  confirmation: ['0', '1'],
  raise: ['0', '1', 'WRONGTYPE', 'OOM'],
  inspect: ['free', 'lock', 'rest', 'foreign', 'not-a-lock'],
  await: ['0', '1'],
  list: ['a list'],
  facts: ['a list'],
}

/** Whether the node may vote. */
const GATE = [
  ...['amnesia empty', 'amnesia restarted', 'amnesia waiting', 'amnesia no-counter'],
  'wrong-set',
]
const LIVING_GATE = [...GATE, 'too-long']
const MARKERS = ['hfm1:w', 'hfm1:v', 'hfm1:c', '', 'WRONGTYPE']
const OF_REDLOCK: Readonly<Record<string, readonly string[]>> = {
  acquire: [
    ...['a token as a number', 'a token as text', 'again', 'repaired', 'held', 'cancelled'],
    ...['not-a-lock', 'no-token', 'ERR', 'OOM', 'READONLY', ...LIVING_GATE],
  ],
  'raise of the recorded token': ['ok', 'not-owner', ...GATE],
  extend: [
    ...['ok', 'free', 'held', 'revoked', 'resting', 'wrong-set', 'too-long'],
    ...['amnesia empty', 'amnesia restarted', 'amnesia waiting'],
  ],
  repair: ['ok', 'again', 'held', 'cancelled', 'OOM', ...LIVING_GATE],
  release: ['0', '1', 'READONLY'],
  cancel: ['0', '1', 'READONLY'],
  proclaim: ['proclaimed', 'not-held', 'too-long', 'older'],
  revoke: [...['revoked', 'again', 'repaired', 'gone', 'cancelled', 'no-token'], ...LIVING_GATE],
  raise: ['0', '1', 'OOM', ...GATE],
  inspect: ['free', 'lock', 'rest', 'foreign', 'not-a-lock'],
  await: ['0', '1'],
  list: ['a list'],
  facts: ['a list'],
  state: ['a list', 'WRONGTYPE'],
  counters: ['a list'],
  probe: ['1'],
  quarantine: [...MARKERS, 'OOM'],
  admit: MARKERS,
  'adopt-run': MARKERS,
  close: [...MARKERS, 'OOM'],
}
const KINDS = [
  { title: 'the Redis backend', stepsFor: stepsOfRedis, replies: OF_REDIS },
  { title: 'a Redlock', stepsFor: stepsOfRedlock, replies: OF_REDLOCK },
]

let started: RedisServer
let redis: Redis
let server: Server

beforeAll(async () => {
  started = await startRedis()
  redis = new Redis(started.port, '127.0.0.1')
  server = new Server(redis)
})

afterAll(async () => {
  server?.close()
  redis?.disconnect()
  await started?.stop()
})

describe('the model of a Redis node', () => {
  // The accident: the simulation proves an algorithm right on a server that does not exist.
  it.each(KINDS)(
    'does in 50,000 random steps of $title what a real Redis does, in replies, keys and messages',
    async ({ stepsFor, replies }) => {
      await server.open(MODELLED_SCRIPTS, ({ lua }) => lua)
      const outcome = await runDifferential({
        redis,
        server,
        models: SCRIPT_MODELS,
        stepsFor,
        seed: SEED,
        steps: STEPS,
      })
      expect(outcome.difference).toBe(null)
      expect(outcome.steps).toBeGreaterThanOrEqual(STEPS)
      expect(outcome.ended).toBeGreaterThan(100)
      expect(outcome.published).toBeGreaterThan(100)
      // What never came was not compared.
      const wanted = Object.entries(replies).flatMap(([name, kinds]) => {
        return kinds.map((kind) => `${name}: ${kind}`)
      })
      expect(wanted.filter((one) => !outcome.replies.has(one))).toEqual([])
    },
    300_000,
  )
})
