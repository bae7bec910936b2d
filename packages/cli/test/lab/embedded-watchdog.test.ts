import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import { checkWatchdog } from '../../src/lab/scenarios/watchdog/check.ts'
import type { TrialRecord } from '../../src/lab/trial.ts'
import { type MadeUp, trialEntries } from './fixtures/made-up-trial.ts'
import { runLab } from './fixtures/run-lab.ts'
import { noSqlite } from './fixtures/sqlite.ts'

if (noSqlite !== null) console.warn(`left out, the lab without servers: ${noSqlite}`)

function recordOf(name: string, made: readonly MadeUp[]): TrialRecord {
  const arm = { name, protected: name !== 'renewed by hand, silent' }
  const entries: readonly Entry[] = trialEntries(name, 0, made)
  return { arm, rounds: 1, size: 1, entries, finals: null }
}

const verdict = (record: TrialRecord): string => verdictOf(record.arm, 1, checkWatchdog(record))

/** Held from 6 ms; the keeper has the file at 1,500 and reads that the entry lives for 2,700 yet. */
function failing(
  name: string,
  toldAtMs: number | null,
  change: (made: readonly MadeUp[]) => readonly MadeUp[] = (made) => made,
): TrialRecord {
  const made: MadeUp[] = [
    ['first process', 'acquire', 0, { lastsMs: 6, answer: 'granted', owner: 'o' }],
    ['lab', 'fault', 1_490, { lastsMs: 20, answer: 'began' }],
    ['keeper', 'entry', 1_500, { lastsMs: 1, answer: 'held', value: 2_700, detail: 'o' }],
    toldAtMs === null
      ? ['first process', 'not-told', 5_600, { value: 12 }]
      : ['first process', 'told', toldAtMs, { value: 12 }],
  ]
  return recordOf(name, change(made))
}

const changed =
  (op: string, more: Partial<Entry>) =>
  (made: readonly MadeUp[]): readonly MadeUp[] =>
    made.map((one) => (one[1] === op ? [one[0], op, one[2], { ...one[3], ...more }] : one))

describe('a file that fails under its holder', () => {
  test.each(['silent', 'slow', 'hung', 'dead'])(
    '%s: the TTL is over when the entry in the file says so',
    (name) => {
      // A TTL that counts from the holder's own idea of its last renewal is the one under test.
      expect(checkWatchdog(failing(name, 4_000))).toMatchObject({
        ...{ rounds: 1, roundsTrue: 1, problems: [] },
        metrics: { toldBeforeTtl: 1, worstMarginMs: 200, heldByTwo: 0 },
      })
      expect(verdict(failing(name, 4_000))).toBe('holds')
      expect(verdict(failing(name, 4_201))).toBe('broken')
      expect(verdict(failing(name, null))).toBe('broken')
    },
  )

  test.each<[string, Partial<Entry>]>([
    ['it names nobody', { answer: 'nobody', value: 0, detail: '' }],
    ['it names somebody else', { detail: 'x' }],
  ])('is no fault of a holder when %s', (_what, more) => {
    // The keeper came too late, or to another file: then nothing was taken from the holder.
    expect(verdict(failing('hung', 4_000, changed('entry', more)))).toBe('void')
  })

  test('is void when what is said to be gone could still be read', () => {
    // Garbage that nobody reads, because all of it is in a cache, is no dead store.
    const tried =
      (answer: string) =>
      (made: readonly MadeUp[]): readonly MadeUp[] => [...made, ['lab', 'try', 1_520, { answer }]]
    expect(verdict(failing('dead', 4_000, tried('unusable')))).toBe('holds')
    expect(verdict(failing('dead', 4_000, tried('readable')))).toBe('void')
  })

  test('an asker who is granted the lock before the holder is told breaks the arm', () => {
    // Who waits for the file gets it when the keeper lets go.
    const other = (made: readonly MadeUp[]): readonly MadeUp[] => [
      ...made,
      ['keeper', 'other', 4_300, { lastsMs: 2, answer: 'granted' }],
    ]
    expect(verdict(failing('silent', 4_000, other))).toBe('holds')
    expect(checkWatchdog(failing('silent', 4_400, other)).metrics).toMatchObject({ heldByTwo: 1 })
    expect(verdict(failing('silent', 4_400, other))).toBe('broken')
    expect(verdict(failing('renewed by hand, silent', null, other))).toBe('holds')
  })
})

/** Held from 6 ms to 20,500 ms for 2,000 at a time, renewed every 600; looked at every 100. */
function longJob(renewEveryMs: number): TrialRecord {
  const made: MadeUp[] = [
    ['first process', 'acquire', 0, { lastsMs: 6, answer: 'granted', owner: 'o' }],
  ]
  for (let atMs = 100; atMs < 20_400; atMs += 100) {
    const renewedAtMs = Math.floor(atMs / renewEveryMs) * renewEveryMs
    // The clock of the file shows the last step that is over.
    const value = renewedAtMs + 2_000 - atMs + (atMs % 300 === 0 ? 10 : 0)
    made.push(['lab', 'look', atMs, { answer: 'seen', detail: 'o', value }])
  }
  for (let atMs = 250; atMs < 20_400; atMs += 500) {
    made.push(['asker', 'ask', atMs, { lastsMs: 1, answer: 'refused' }])
  }
  made.push(
    ['lab', 'job', 20, { lastsMs: 20_400, answer: 'over', value: 20 }],
    ['first process', 'release', 20_500, { lastsMs: 1, answer: 'released' }],
    ['first process', 'not-told', 20_510, { value: 30 }],
    ['asker', 'ask', 20_600, { lastsMs: 1, answer: 'granted' }],
  )
  return recordOf('long job', made)
}

describe('a job of ten TTLs, in a file', () => {
  test('has the renewals that were seen, and none by a clock that counts in steps', () => {
    // A step of 10 ms between two looks is not a renewal.
    expect(checkWatchdog(longJob(600)).metrics).toMatchObject({ renewals: 33, asks: 41 })
    expect(checkWatchdog(longJob(30_000)).metrics).toMatchObject({ renewals: 0 })
    expect(verdict(longJob(600))).toBe('holds')
  })
})

interface Arm {
  readonly name: string
  readonly verdict: string
  readonly problems: readonly string[]
  readonly metrics: Readonly<Record<string, number>>
}

describe.runIf(noSqlite === null)('watchdog on files', () => {
  test('every running holder is told in time, and the control is not', async () => {
    // A driver that answers at once does not answer at all while somebody else has the file.
    const args = ['--embedded', 'watchdog', '--rounds', '4', '--seed', '11', '--json']
    const { code, stdout, stderr, leftovers } = await runLab(args)
    const [watchdog] = (JSON.parse(stdout) as { scenarios: { arms: Arm[] }[] }).scenarios
    const arms = watchdog?.arms ?? []
    const failures = ['silent', 'slow', 'hung', 'dead']
    expect(arms.map(({ name, verdict: said, problems }) => [name, said, problems])).toEqual(
      ['long job', 'renewed by hand, silent', ...failures, 'blocked loop'].map((name) => [
        ...[name, 'holds', []],
      ]),
    )
    const metricsOf = (name: string): Readonly<Record<string, number>> =>
      arms.find((arm) => arm.name === name)?.metrics ?? {}
    for (const name of failures) {
      expect(metricsOf(name)).toMatchObject({ toldBeforeTtl: 2, rounds: 2 })
      expect(metricsOf(name)['worstMarginMs']).toBeGreaterThan(0)
    }
    expect(metricsOf('renewed by hand, silent')).toMatchObject({ toldBeforeTtl: 0, heldByTwo: 2 })
    expect(metricsOf('long job')['renewals']).toBeGreaterThanOrEqual(2 * 10)
    expect(metricsOf('blocked loop')['worstMarginMs']).toBeLessThan(0)
    expect({ code, stderr, leftovers }).toEqual({ code: 0, stderr: '', leftovers: [] })
  })
})
