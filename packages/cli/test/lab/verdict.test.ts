import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { pauseKind } from '../../src/lab/faults/index.ts'
import { History } from '../../src/lab/history.ts'
import type { ScenarioResult } from '../../src/lab/run.ts'
import type { Scenario } from '../../src/lab/scenario.ts'
import {
  type PostgresServer,
  type RedisServer,
  startPostgres,
  startRedis,
} from '../../src/lab/servers/index.ts'

let redis: RedisServer
let postgres: PostgresServer
let tmp: string

beforeAll(async () => {
  tmp = mkdtempSync(join(tmpdir(), 'lab-test-'))
  chmodSync(tmp, 0o711)
  redis = await startRedis()
  postgres = await startPostgres()
})

afterAll(async () => {
  await redis?.stop()
  await postgres?.stop()
  rmSync(tmp, { recursive: true, force: true })
})

/** Through the built harness: its workers are processes of their own and cannot load sources. */
async function run(module: string, rounds: number): Promise<ScenarioResult> {
  const built = new URL('../../dist/lab/run.js', import.meta.url).href
  const { runScenario } = (await import(built)) as typeof import('../../src/lab/run.ts')
  const url = new URL(`./fixtures/${module}`, import.meta.url).href
  const { scenario } = (await import(url)) as { scenario: Scenario }
  const addresses = {
    redis: { host: '127.0.0.1', port: redis.port },
    postgres: postgres.connection,
  }
  return runScenario({
    ...{ scenario, module: url, addresses, rounds, seed: 1, lanes: 2 },
    ...{ kind: pauseKind('sleep'), history: new History(null), onProgress: () => {} },
  })
}

/** Of four. A round in which the machine was too slow for the experiment is not counted: once more. */
async function everyRoundOf(module: string): Promise<ScenarioResult> {
  let result = await run(module, 4)
  for (let again = 0; again < 3; again++) {
    if (result.arms.every(({ metrics }) => metrics['expectedBalance'] === 8)) break
    result = await run(module, 4)
  }
  return result
}

describe('an experiment that must not pass', () => {
  test('an arm whose guard is taken out is broken, a control that is safe is void', async () => {
    // A lab that says "holds" whatever it runs would have said so of this one.
    const result = await everyRoundOf('sabotaged.mjs')
    expect(result.errors).toEqual([])
    const [control, guard] = result.arms
    expect(control).toMatchObject({ name: 'lock only', protected: false, verdict: 'void' })
    expect(control?.metrics).toMatchObject({ lostUpdates: 0, finalBalance: 8, expectedBalance: 8 })
    expect(guard).toMatchObject({ name: 'lock + guard', protected: true, verdict: 'broken' })
    expect(guard?.metrics).toMatchObject({ lostUpdates: 4, refusedWrites: 0, finalBalance: 4 })
    expect(result.verdict).toBe('void')
  })

  test('a worker that dies ends the scenario with its last words, and nothing passes', async () => {
    // A round that nobody finished must not be a round that nobody failed.
    const beganAtMs = performance.now()
    const result = await run('dying.mjs', 4)
    // Without waiting for the other lanes' rounds, which have a minute each.
    expect(performance.now() - beganAtMs).toBeLessThan(45_000)
    expect(result.errors).toHaveLength(1)
    expect(result.errors[0]).toMatch(/worker B \(process \d+\) ended unexpectedly: SIGKILL/)
    expect(result.errors[0]).toContain('this is the last that B says')
    expect(result.verdict).toBe('void')
    expect(result.arms.map(({ verdict }) => verdict)).toContain('void')
  })
})
