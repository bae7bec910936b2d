import { existsSync } from 'node:fs'
import { createConnection } from 'node:net'
import { fileURLToPath } from 'node:url'
import { describe, expect, test, vi } from 'vitest'
import { History } from '../../src/lab/history.ts'
import type { ScenarioResult } from '../../src/lab/run.ts'
import { findPrograms } from '../../src/lab/servers/index.ts'
import type { TrialArm, TrialScenario } from '../../src/lab/trial.ts'
import { runLab, StartedLab } from './fixtures/run-lab.ts'

interface Started {
  readonly pids: readonly number[]
  readonly folder?: string
  readonly port?: number
}

type ArmName = 'counting' | 'dying' | 'endless' | 'etcd' | 'lacking'

/** Through the built harness, like the scenarios of rounds. */
async function run(
  names: readonly ArmName[],
  change: Partial<TrialScenario> = {},
): Promise<{ result: ScenarioResult; history: History; started: Started[] }> {
  const built = new URL('../../dist/lab/run-trials.js', import.meta.url).href
  const { runTrials } = (await import(built)) as typeof import('../../src/lab/run-trials.ts')
  const module = new URL('./fixtures/trials.mjs', import.meta.url).href
  const { scenario, armsOf } = (await import(module)) as {
    scenario: TrialScenario
    armsOf: (onStart: (started: Started) => void) => Record<ArmName, TrialArm>
  }
  const started: Started[] = []
  const all = armsOf((one) => started.push(one))
  const history = new History(null)
  const result = await runTrials({
    scenario: { ...scenario, arms: names.map((name) => all[name]), ...change },
    ...{ module, addresses: {}, rounds: 1, seed: 1, history, onProgress: () => {} },
  })
  return { result, history, started }
}

/** Nothing that an arm started is there any more: no process, no folder, no open port. */
async function expectAllGone(started: readonly Started[]): Promise<void> {
  expect(started.length).toBeGreaterThan(0)
  for (const { pids, folder, port } of started) {
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
    if (folder !== undefined) expect(existsSync(folder)).toBe(false)
    if (port !== undefined) await expect(connectTo(port)).rejects.toThrow('ECONNREFUSED')
  }
}

function connectTo(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    socket.once('connect', () => socket.destroy() && resolve())
    socket.once('error', reject)
  })
}

describe('a trial', () => {
  test('has servers, proxies and workers of its own, and a history of what they did', async () => {
    // An experiment with a server that is restarted empty is none of rounds in lanes.
    const { result, history, started } = await run(['counting'])
    expect(result).toMatchObject({ verdict: 'holds', errors: [] })
    expect(result.arms[0]?.metrics).toMatchObject({
      ...{ counted: 3, before: 3, after: 0 },
      result: { times: 3, hasStop: false },
    })
    const entries = history.of('counting')
    expect(entries.map(({ process, op, value }) => [process, op, value])).toEqual([
      ['counter', 'count', 1],
      ['counter', 'count', 2],
      ['counter', 'count', 3],
      ['lab', 'restart', undefined],
    ])
    expect(entries[0]?.pid).toBe(started[0]?.pids[1])
    await expectAllGone(started)
  })

  test('whose worker dies is void with its last words, and leaves nothing', async () => {
    // A worker that stands still by SIGSTOP takes no other signal than SIGKILL.
    const { result, started } = await run(['dying'])
    expect(result.verdict).toBe('void')
    expect(result.errors).toHaveLength(1)
    expect(result.errors[0]).toMatch(/worker victim \(process \d+\) ended unexpectedly: SIGKILL/)
    expect(result.errors[0]).toContain('this is the last that it says')
    expect(result.arms[0]?.problems[0]).toContain('it came to no end')
    await expectAllGone(started)
  })

  test('that takes too long is void, and leaves nothing', async () => {
    // A server that hangs must not hang the lab.
    const beganAtMs = performance.now()
    const { result, started } = await run(['endless'], { armMsMax: 2_000 })
    expect(performance.now() - beganAtMs).toBeLessThan(45_000)
    expect(result.arms[0]).toMatchObject({ verdict: 'void', rounds: 0 })
    expect(result.errors[0]).toContain('endless: no end within 2000 ms')
    await expectAllGone(started)
  })

  test('that runs beside one which fails is ended at once', async () => {
    // Its minute would be a minute of waiting for a result that nobody wants any more.
    const beganAtMs = performance.now()
    const { result, started } = await run(['endless', 'dying'], { armsAtOnce: 2 })
    expect(performance.now() - beganAtMs).toBeLessThan(45_000)
    expect(result.errors).toHaveLength(1)
    expect(result.arms.map(({ verdict }) => verdict)).toEqual(['void', 'void'])
    await expectAllGone(started)
  })

  test('whose machine lacks something is skipped with one line, and the others count', async () => {
    // Neither a pass nor a failure: nothing was looked at.
    const { result } = await run(['counting', 'lacking'])
    expect(result.arms[1]).toMatchObject({
      ...{ verdict: 'skipped', skipped: 'there is no such thing here', notCovered: true },
    })
    expect(result.verdict).toBe('holds')
    expect((await run(['lacking'])).result.verdict).toBe('void')
  })

  test('has an etcd of one member and one of three of its own, and both end with it', async () => {
    // What stays of an etcd is a process, a port and a folder of some 100 MB.
    const { result, started } = await run(['etcd'])
    expect(result).toMatchObject({ verdict: 'holds', errors: [] })
    expect(result.arms[0]?.metrics).toEqual({ clusters: 2 })
    expect(started).toHaveLength(4)
    await expectAllGone(started)
  })

  test('whose arm needs a server that is missing is skipped with one line, and the others count', async () => {
    // Of a machine without etcd everything else must still be had.
    const found = { servers: { redis: findPrograms('redis') }, missing: { etcd: 'no apt here' } }
    vi.stubEnv('HOLDFAST_SERVERS', JSON.stringify(found))
    try {
      const { result, started } = await run(['counting', 'etcd'])
      expect(result.arms.map(({ verdict }) => verdict)).toEqual(['holds', 'skipped'])
      expect(result.arms[1]?.skipped).toMatch(/^etcd is not on this machine \(no apt here\): run /)
      expect(result).toMatchObject({ verdict: 'holds', errors: [] })
      await expectAllGone(started)
    } finally {
      vi.unstubAllEnvs()
    }
  })

  test('of which a claim is not true is broken, and the exit code says so', async () => {
    // The check of this arm asks for a restart that empties the server.
    const { result } = await run(['counting'], {
      check: () => ({
        ...{ rounds: 1, roundsTrue: 0, redrawn: 0, metrics: {}, timings: {} },
        ...{ problems: [], breaches: [] },
      }),
    })
    expect(result.verdict).toBe('broken')
  })
})

describe('a whole run with trials', () => {
  const program = fileURLToPath(new URL('./fixtures/trials-lab.mjs', import.meta.url))

  test('reports them like the others, in the table and in the JSON', async () => {
    // One report for both kinds: what reads it need not know which kind a scenario is.
    const args = ['pause', '--rounds', '1', '--seed', '5']
    const env = { MADE_UP_ARMS: 'counting,lacking' }
    const table = await runLab(args, { program, env })
    expect(table).toMatchObject({ code: 0, stderr: '', leftovers: [] })
    expect(table.stdout).toMatch(/counting +│ yes +│ +1 │ +3 │ .* s │ holds/)
    expect(table.stdout).toMatch(/lacking +│ not covered +│ +0 │ +│ .* s │ skipped/)
    expect(table.stdout).toContain('lacking: skipped, there is no such thing here\n')
    const more = { MADE_UP_ARMS: 'counting,etcd,lacking' }
    const json = await runLab([...args, '--json'], { program, env: more })
    expect(json).toMatchObject({ code: 0, stderr: '' })
    const report = JSON.parse(json.stdout) as { servers: object; scenarios: object[] }
    const version = expect.stringMatching(/^\d+\.\d+\.\d+$/)
    expect(report.servers).toEqual({ redis: version, etcd: version })
    const [scenario] = report.scenarios
    expect(scenario).toMatchObject({
      verdict: 'holds',
      arms: [
        { name: 'counting', notCovered: false, verdict: 'holds', skipped: null },
        { name: 'etcd', verdict: 'holds', skipped: null },
        { name: 'lacking', notCovered: true, verdict: 'skipped' },
      ],
    })
  })

  test('that is ended by SIGINT leaves no process and no folder', async () => {
    // A frozen server and a worker are alive at that moment.
    const lab = new StartedLab(['pause', '--json'], { program, env: { MADE_UP_ARMS: 'endless' } })
    try {
      // The run's own Redis and the arm's.
      await lab.until('servers', () => lab.processes().length >= 2)
      lab.child.kill('SIGINT')
      expect(await lab.ended).toMatchObject({
        ...{ code: 130, stdout: '', stderr: 'holdfast lab: ended by SIGINT\n' },
      })
      expect(await lab.survivors()).toEqual([])
      expect(lab.leftovers()).toEqual([])
    } finally {
      await lab.clean()
    }
  })
})
