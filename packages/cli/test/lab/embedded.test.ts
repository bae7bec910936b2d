import { isBuiltin } from 'node:module'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { HOLDFAST, runLab } from './fixtures/run-lab.ts'
import { noSqlite } from './fixtures/sqlite.ts'

if (noSqlite !== null) console.warn(`left out, the lab without servers: ${noSqlite}`)

interface Report {
  readonly stores: string
  readonly servers: object
  readonly sqlite: { readonly driver: string; readonly version: string }
  readonly replay: string
  readonly scenarios: readonly {
    readonly name: string
    readonly verdict: string
    readonly arms: readonly {
      readonly name: string
      readonly protected: boolean
      readonly claim: string
      readonly rounds: number
      readonly metrics: Readonly<Record<string, number>>
      readonly verdict: string
    }[]
  }[]
}

/** Few lanes: a test machine may have other things to do. */
const FEW = ['--rounds', '2', '--lanes', '2', '--seed', '42']
/** A machine that has none, whatever this one has. */
const WITHOUT_SERVERS = {
  HOLDFAST_SERVERS: JSON.stringify({ servers: {}, missing: { postgres: 'no apt here' } }),
}

function armsOf({ scenarios }: Report, name: string): Report['scenarios'][number]['arms'] {
  return scenarios.find((one) => one.name === name)?.arms ?? []
}

describe.runIf(noSqlite === null)('the lab without servers', () => {
  test.each(['sigstop', 'sleep'])(
    'pausing by %s, has the arms, metrics and verdicts that it has with them',
    async (pause) => {
      // An experiment that comes to less on files would show less and look the same.
      const args = ['--embedded', 'pause', 'unlock', '--pause', pause, '--json', ...FEW]
      const { code, stdout, stderr, leftovers } = await runLab(args, { env: WITHOUT_SERVERS })
      const report = JSON.parse(stdout) as Report
      const of = (lost: number, refused: number, stopped: number): object => ({
        ...{ lostUpdates: lost, refusedWrites: refused, stoppedByHolder: stopped },
        ...{ finalBalance: 4 - lost, expectedBalance: 4 },
      })
      const figures = (name: string): unknown[] =>
        armsOf(report, name).map((arm) => [arm.name, arm.rounds, arm.metrics, arm.verdict])
      expect(figures('pause')).toEqual([
        ['no lock', 2, of(2, 0, 0), 'holds'],
        ['lock only', 2, of(2, 0, 0), 'holds'],
        ['lock + fence column', 2, of(0, 2, 0), 'holds'],
        ['lock + guard', 2, of(0, 2, 0), 'holds'],
        ['lock + lease', 2, of(0, 0, 2), 'holds'],
        ['lock + guard, pause inside', 2, of(0, 0, 2), 'holds'],
      ])
      expect(figures('unlock')).toEqual([
        ['bare delete', 2, { doubleHolding: 2 }, 'holds'],
        ['owner-checked', 2, { doubleHolding: 0 }, 'holds'],
      ])
      // What is not the same is said.
      expect(armsOf(report, 'pause').at(-1)?.claim).toContain('until the pause is over')
      expect(report).toMatchObject({
        ...{ stores: 'embedded', servers: {} },
        sqlite: {
          driver: expect.stringMatching(/^(better-sqlite3|node:sqlite)$/),
          version: expect.stringMatching(/^3\.\d+\.\d+$/),
        },
        replay:
          'npm run -s lab -- --embedded pause unlock --rounds 2 --seed 42 ' +
          `--pause ${pause} --lanes 2`,
      })
      expect({ code, stderr, leftovers }).toEqual({ code: 0, stderr: '', leftovers: [] })
    },
  )

  test('loses a withdrawal and an acknowledged update in the controls, and nothing else', async () => {
    // The claim, the column form and the read outside of the transaction are other code for a file.
    const args = ['--embedded', 'withdraw', 'late-write', '--json', ...FEW]
    const { code, stdout, stderr } = await runLab(args, { env: WITHOUT_SERVERS })
    const report = JSON.parse(stdout) as Report
    for (const { protected: isProtected, verdict, metrics } of armsOf(report, 'withdraw')) {
      const { lostUpdates, expectedBalance } = metrics
      expect([verdict, lostUpdates, expectedBalance]).toEqual(['holds', isProtected ? 0 : 2, 200])
    }
    expect(armsOf(report, 'withdraw')).toHaveLength(6)
    expect(armsOf(report, 'late-write').map((arm) => [arm.name, arm.metrics, arm.verdict])).toEqual(
      [
        ['write-only guard', { acknowledged: 4, lost: 2, refusedWrites: 0 }, 'holds'],
        ['claim and read together', { acknowledged: 4, lost: 0, refusedWrites: 2 }, 'holds'],
        ['claim, then read', { acknowledged: 4, lost: 0, refusedWrites: 2 }, 'holds'],
        ['guard.update after a read', { acknowledged: 4, lost: 2, refusedWrites: 0 }, 'holds'],
        [
          'guard.update, read, guard.update',
          ...[{ acknowledged: 4, lost: 0, refusedWrites: 2 }, 'holds'],
        ],
      ],
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  test('gives out exactly as many prizes as there are with lock and guard, and more without', async () => {
    // Eight processes at one file: what one of them reads is old before it writes.
    const args = ['--embedded', 'campaign', '--rounds', '1', '--seed', '5', '--json']
    const { code, stdout, stderr } = await runLab(args, { env: WITHOUT_SERVERS })
    const arms = armsOf(JSON.parse(stdout) as Report, 'campaign')
    expect(arms.map(({ name, verdict }) => [name, verdict])).toEqual([
      ['no lock', 'holds'],
      ['lock only', 'holds'],
      ['lock + guard', 'holds'],
    ])
    const [noLock, lockOnly, guarded] = arms.map(({ metrics }) => metrics)
    expect(noLock?.['granted']).toBeGreaterThan(10)
    expect(lockOnly?.['granted']).toBeGreaterThan(10)
    expect(guarded).toMatchObject({ granted: 10, limit: 10 })
    expect(guarded?.['perSecond']).toBeGreaterThan(0)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })
})

describe.runIf(noSqlite === null)('a product that is broken', () => {
  test('is found out by the judges of the lab without servers', async () => {
    // A release that deletes whoever's entry it is, and a guard that lets every write through.
    const program = fileURLToPath(new URL('./fixtures/sabotaged-embedded.mjs', import.meta.url))
    const args = ['--embedded', 'unlock', 'pause', '--pause', 'sleep', '--json', ...FEW]
    const { code, stdout, stderr } = await runLab(args, { program, env: WITHOUT_SERVERS })
    const report = JSON.parse(stdout) as Report
    const verdicts = (name: string): unknown[] =>
      armsOf(report, name).map((arm) => [arm.name, arm.verdict])
    expect(verdicts('unlock')).toEqual([
      ['bare delete', 'holds'],
      ['owner-checked', 'broken'],
    ])
    expect(verdicts('pause')).toEqual([['lock + guard', 'broken']])
    expect({ code, stderr }).toEqual({ code: 1, stderr: '' })
  })
})

describe.runIf(noSqlite === null)('where the servers cannot be had', () => {
  test('what can be run without them is run, and one line says so', async () => {
    // Half of the experiments need nothing but Node: an exit code 3 would show none of them.
    const { code, stdout, stderr } = await runLab(['unlock', ...FEW], { env: WITHOUT_SERVERS })
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(stderr).toContain('redis-server is not on this machine')
    expect(stderr).toContain('what is run instead is --embedded, on files of SQLite')
    expect(stdout).toMatch(/^profile quick, without servers: unlock; 2 rounds of each arm/)
    expect(stdout).toContain('replay: npm run -s lab -- --embedded unlock --rounds 2 --seed 42')
    expect(code).toBe(0)
  })

  test.each([
    // Asked for by name, and not to be had: a run of the others would look like an answer.
    [['data-loss', 'unlock']],
    // The record of a run on servers would become one of another kind.
    [['unlock', '--record', '/tmp/holdfast-no-record.md']],
  ])('%j is exit code 3, for it would be less than was asked for', async (args) => {
    const { code, stdout, stderr } = await runLab(args, { env: WITHOUT_SERVERS })
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(stderr).toContain('redis-server is not on this machine')
    expect(stderr).not.toContain('instead')
  })

  test('the driver of Node itself is taken, and without one a line says what was tried', async () => {
    // better-sqlite3 is another Node's as often as not, and Node 20 has no driver.
    const env = { ...WITHOUT_SERVERS, HOLDFAST_BETTER_SQLITE3: '/nowhere/better_sqlite3.node' }
    const { code, stdout, stderr } = await runLab(['--embedded', 'unlock', '--json', ...FEW], {
      env,
    })
    if (isBuiltin('node:sqlite')) {
      expect((JSON.parse(stdout) as Report).sqlite.driver).toBe('node:sqlite')
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    } else {
      expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
      expect(stderr).toMatch(
        /^holdfast lab: no driver of SQLite loads under Node v.*node:sqlite; use Node 22/,
      )
      expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    }
  })
})

describe('exit codes without a run', () => {
  test('a scenario that needs servers is refused by its name, with those that do not', async () => {
    // `--embedded data-loss` cannot be a run of nothing.
    const args = ['lab', '--embedded', 'data-loss']
    const { code, stdout, stderr } = await runLab(args, { program: HOLDFAST })
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(
      "scenario 'data-loss' needs servers; with --embedded: " +
        'pause, unlock, withdraw, late-write, campaign, watchdog',
    )
  })
})
