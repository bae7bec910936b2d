import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { HOLDFAST, runLab } from './fixtures/run-lab.ts'

/** The shape that scripts and the record of runs rely on. */
interface Report {
  readonly commit: string
  readonly seed: number
  readonly replay: string
  readonly scenarios: readonly {
    readonly name: string
    readonly claim: string
    readonly verdict: string
    readonly lanes: number
    readonly arms: readonly {
      readonly name: string
      readonly protected: boolean
      readonly rounds: number
      readonly redrawn: number
      readonly metrics: Readonly<Record<string, number>>
      readonly verdict: string
    }[]
  }[]
}

/** Few lanes: a test machine may have other things to do. */
const FEW = ['--rounds', '3', '--lanes', '3']

describe('real runs', () => {
  test.each([
    ['sigstop', 'pause', 'unlock'],
    ['sleep', 'pause', 'unlock'],
    ['gc', 'pause', 'unlock'],
    ['block', 'pause', 'unlock'],
  ])('pausing by %s, every claim holds and the JSON says so', async (pause, ...names) => {
    // The experiment that the whole repository rests on.
    const lanes = pause === 'gc' ? ['--rounds', '3', '--lanes', '2'] : FEW
    const { code, stdout, stderr, leftovers } = await runLab([
      ...names,
      '--pause',
      pause,
      '--seed',
      '42',
      '--json',
      ...lanes,
    ])
    const report = JSON.parse(stdout) as Report
    const figures = report.scenarios.map(({ name, verdict, arms }) => [
      name,
      verdict,
      arms.map((arm) => [arm.name, arm.protected, arm.rounds, arm.metrics, arm.verdict]),
    ])
    const of = (lost: number, refused: number, stopped: number): object => ({
      ...{ lostUpdates: lost, refusedWrites: refused, stoppedByHolder: stopped },
      ...{ finalBalance: 6 - lost, expectedBalance: 6 },
    })
    expect(figures).toEqual([
      [
        'pause',
        'holds',
        [
          ['no lock', false, 3, of(3, 0, 0), 'holds'],
          ['lock only', false, 3, of(3, 0, 0), 'holds'],
          ['lock + fence column', true, 3, of(0, 3, 0), 'holds'],
          ['lock + guard', true, 3, of(0, 3, 0), 'holds'],
          ['lock + lease', true, 3, of(0, 0, 3), 'holds'],
          ['lock + guard, pause inside', true, 3, of(0, 0, 3), 'holds'],
        ],
      ],
      [
        'unlock',
        'holds',
        [
          ['bare delete', false, 3, { doubleHolding: 3 }, 'holds'],
          ['owner-checked', true, 3, { doubleHolding: 0 }, 'holds'],
        ],
      ],
    ])
    expect(report.seed).toBe(42)
    expect(report.commit).toMatch(/^([0-9a-f]{40}(-dirty)?|unknown)$/)
    expect(report.replay).toMatch(
      new RegExp(
        `^npm run -s lab -- pause unlock --rounds 3 --seed 42 --pause ${pause} --lanes \\d$`,
      ),
    )
    expect({ code, stderr, leftovers }).toEqual({ code: 0, stderr: '', leftovers: [] })
  })

  test.each(['sigstop', 'block'])(
    'pausing by %s, no withdrawal and no acknowledged update is lost but in the controls',
    async (pause) => {
      // 1000 - 500 - 300, and a guard on writes alone: where every token is right and one is lost.
      const { code, stdout, stderr } = await runLab([
        ...['withdraw', 'late-write', '--pause', pause, '--seed', '11', '--json', ...FEW],
      ])
      const [withdraw, lateWrite] = (JSON.parse(stdout) as Report).scenarios
      expect(withdraw?.arms.map((arm) => [arm.name, arm.protected, arm.verdict])).toEqual([
        ['no lock', false, 'holds'],
        ['no lock, one statement', true, 'holds'],
        ['lock, nobody pauses', true, 'holds'],
        ['lock, A pauses', false, 'holds'],
        ['lock + guard, A pauses', true, 'holds'],
        ['lock + lease, A pauses', true, 'holds'],
      ])
      for (const { protected: isProtected, rounds, metrics } of withdraw?.arms ?? []) {
        const { lostUpdates, finalBalance, expectedBalance } = metrics
        expect([rounds, lostUpdates, expectedBalance]).toEqual([3, isProtected ? 0 : 3, 200])
        if (isProtected) expect(finalBalance).toBe(200)
        else expect(finalBalance).toBeGreaterThanOrEqual(500)
      }
      expect(lateWrite?.arms.map((arm) => [arm.name, arm.metrics, arm.verdict])).toEqual([
        ['write-only guard', { acknowledged: 6, lost: 3, refusedWrites: 0 }, 'holds'],
        ['claim and read together', { acknowledged: 6, lost: 0, refusedWrites: 3 }, 'holds'],
        ['claim, then read', { acknowledged: 6, lost: 0, refusedWrites: 3 }, 'holds'],
        ['guard.update after a read', { acknowledged: 6, lost: 3, refusedWrites: 0 }, 'holds'],
        [
          'guard.update, read, guard.update',
          ...[{ acknowledged: 6, lost: 0, refusedWrites: 3 }, 'holds'],
        ],
      ])
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    },
  )

  test('without --json there is a table with verdicts and the replay command', async () => {
    // What a person sees; in a pipe without bars and without colours.
    const folder = mkdtempSync(join(tmpdir(), 'lab-test-'))
    try {
      const history = join(folder, 'history.jsonl')
      const { code, stdout, stderr } = await runLab(
        ['lab', 'unlock', '--seed', '7', '--history', history, ...FEW],
        { program: HOLDFAST },
      )
      expect(stdout).toMatch(
        /^profile quick: unlock; 3 rounds of each arm; pause by sigstop; seed 7/,
      )
      expect(stdout).toMatch(/bare delete +│ no +│ +3 │ +3 │ .* s │ holds/)
      expect(stdout).toMatch(/owner-checked +│ yes +│ +3 │ +0 │ .* s │ holds/)
      expect(stdout).toContain('unlock holds; 3 rounds at once')
      expect(stdout).toContain(
        'replay: holdfast lab unlock --rounds 3 --seed 7 --pause sigstop --lanes 3\n',
      )
      // biome-ignore lint/suspicious/noControlCharactersInRegex: that there are none is the point.
      expect(stdout).not.toMatch(/\u001b/)
      expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
      const lines = readFileSync(history, 'utf8').trimEnd().split('\n')
      const written = lines.map((line) => JSON.parse(line) as Record<string, unknown>)
      expect(written[0]).toMatchObject({ run: { scenario: 'unlock', seed: 7 } })
      const entries = written.flatMap(({ entry }) => (entry === undefined ? [] : [entry]))
      // A acquires, pauses, releases; B acquires, releases; C asks; the lab stops, continues, looks.
      expect(entries.length).toBeGreaterThanOrEqual(2 * 3 * 9)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

describe('exit codes without a run', () => {
  test.each([
    [['pauze'], "unknown scenario 'pauze'; known: pause, unlock"],
    [['--rounds', 'ten'], "option '--rounds <n>' argument 'ten' is invalid"],
    [['--pause', 'nap'], 'Allowed choices are sigstop, sleep, gc, block'],
    [['--nothing'], "unknown option '--nothing'"],
    // The accident: a URL in the wrong place is pasted into a ticket.
    [['redis://:secret@h'], "unknown scenario 'redis://(withheld)@h'"],
    [['--password=secret'], "unknown option '--password=(withheld)'"],
  ])('%j is wrong usage: 2, and nothing on stdout', async (args, said) => {
    // A script that reads stdout must not find a usage text there.
    const { code, stdout, stderr } = await runLab(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(said)
  })

  test('the same for the command holdfast, with and without a subcommand', async () => {
    // The command is what is installed; both ways must tell the same.
    const wrong = await runLab(['lab', '--rounds', '0'], { program: HOLDFAST })
    expect(wrong).toMatchObject({ code: 2, stdout: '' })
    expect(await runLab([], { program: HOLDFAST })).toMatchObject({ code: 2, stdout: '' })
    expect(await runLab(['nothing'], { program: HOLDFAST })).toMatchObject({ code: 2, stdout: '' })
    expect(await runLab(['--version'], { program: HOLDFAST })).toMatchObject({ code: 0 })
  })

  test('help goes to stdout with exit code 0 and says what the seed does not do', async () => {
    // Who replays a run expects the same timing otherwise.
    const { code, stdout, stderr } = await runLab(['--help'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    for (const part of ['pause', 'unlock', '--history', 'real time', 'Exit codes: 0']) {
      expect(stdout).toContain(part)
    }
  })

  test('a missing server is 3, and one line on stderr says which', async () => {
    // "connect ECONNREFUSED" after a minute says nothing.
    const HOLDFAST_SERVERS = JSON.stringify({ servers: {}, missing: { postgres: 'no apt here' } })
    const { code, stdout, stderr } = await runLab(['data-loss'], { env: { HOLDFAST_SERVERS } })
    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(stderr).toContain('redis-server is not on this machine')
    expect(stderr).toContain('PostgreSQL is not on this machine (no apt here)')
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })

  test('a server that the scenario does not need is not missed', async () => {
    // `unlock` is Redis only.
    const HOLDFAST_SERVERS = JSON.stringify({ servers: {}, missing: {} })
    const { stderr } = await runLab(['unlock'], { env: { HOLDFAST_SERVERS } })
    expect(stderr).not.toContain('PostgreSQL')
  })
})
