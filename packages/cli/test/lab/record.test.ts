import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ROUNDS } from '../../src/lab/args.ts'
import type { LabDocument } from '../../src/lab/report/json.ts'
import { recordPage } from '../../src/lab/report/record.ts'
import { SCENARIOS } from '../../src/lab/scenarios/index.ts'
import { runLab } from './fixtures/run-lab.ts'
import { noSqlite } from './fixtures/sqlite.ts'

if (noSqlite !== null) console.warn(`left out, a record without servers: ${noSqlite}`)

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))

let tmp: string
beforeEach(() => {
  tmp = mkdtempSync(join(tmpdir(), 'lab-test-'))
})
afterEach(() => {
  rmSync(tmp, { recursive: true, force: true })
})

/** A repository of git for which this tree is clean, or not, whatever it is for the real one. */
function gitEnv(isClean: boolean): NodeJS.ProcessEnv {
  const env = { ...process.env, GIT_DIR: join(tmp, 'git'), GIT_WORK_TREE: ROOT }
  const git = (...args: string[]): void => void execFileSync('git', args, { env, stdio: 'ignore' })
  git('init')
  const who = ['-c', 'user.name=test', '-c', 'user.email=test@localhost']
  git(...who, 'commit', '--allow-empty', '-m', 'an empty tree')
  if (isClean) writeFileSync(join(tmp, 'git', 'info', 'exclude'), '*\n')
  return env
}

test('a record is written as a page and as data, and the one follows from the other', async () => {
  // A page that somebody has touched up by hand.
  const page = join(tmp, 'record.md')
  const { code, stdout, stderr } = await runLab(
    ['unlock', '--rounds', '2', '--lanes', '2', '--seed', '9', '--record', page],
    { env: gitEnv(true) },
  )
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  expect(stdout).toContain(`record: ${page}\n`)
  const document = JSON.parse(readFileSync(join(tmp, 'record.json'), 'utf8')) as LabDocument
  expect(document.commit).toMatch(/^[0-9a-f]{40}$/)
  expect(document).toMatchObject({
    ...{ seed: 9, rounds: 2, scenarios: [{ name: 'unlock', rounds: 2, verdict: 'holds' }] },
    servers: { redis: expect.stringMatching(/^\d+\.\d+\.\d+$/) },
  })
  expect(readFileSync(page, 'utf8')).toBe(recordPage(document, 'record.json'))
})

test.runIf(noSqlite === null)(
  'a record without servers says so, and names the driver',
  async () => {
    // Beside the one on servers it must not be taken for it.
    const page = join(tmp, 'embedded.md')
    const { code, stderr } = await runLab(
      [...['--embedded', 'unlock', '--rounds', '2', '--lanes', '2'], '--record', page],
      { env: gitEnv(true) },
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const document = JSON.parse(readFileSync(join(tmp, 'embedded.json'), 'utf8')) as LabDocument
    const text = readFileSync(page, 'utf8')
    expect(text).toBe(recordPage(document, 'embedded.json'))
    expect(text).toContain('# The record of the lab without servers\n')
    expect(text).toMatch(/One run of the experiments on files of SQLite, without a server/)
    expect(text).toMatch(
      /\| versions \| Node v[\d.]+, SQLite 3\.[\d.]+ \((better-sqlite3|node:sqlite)\) \|/,
    )
    expect(text).toContain('npm run -s lab -- --embedded unlock')
  },
)

test('no record is made of files that differ from their commit, and nothing is started', async () => {
  // Its commit would name something else than what was run.
  const page = join(tmp, 'record.md')
  const { code, stdout, stderr } = await runLab(['unlock', '--record', page], {
    env: gitEnv(false),
  })
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  expect(stderr).toContain('--record is for a commit, and files differ from it')
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(readdirSync(tmp)).toEqual(['git'])
  expect(existsSync(page)).toBe(false)
})

test('the record of this repository is of a full run in which every claim held', () => {
  // A page of an older form, one that somebody has touched up, or one that nobody could vouch for.
  const read = (name: string): string => readFileSync(join(ROOT, 'docs', name), 'utf8')
  const document = JSON.parse(read('lab-record.json')) as LabDocument
  expect(read('lab-record.md')).toBe(recordPage(document, 'lab-record.json'))
  expect(document).toMatchObject({ profile: 'full', rounds: ROUNDS.full })
  expect(document.commit).toMatch(/^[0-9a-f]{40}$/)
  const known = SCENARIOS.map(({ scenario }) => scenario.name)
  for (const { name, verdict, arms, errors } of document.scenarios) {
    expect(known).toContain(name)
    expect({ name, verdict, errors }).toEqual({ name, verdict: 'holds', errors: [] })
    // No arm was left out: the record is made on a machine that has a compiler.
    expect(arms.map((arm) => [arm.name, arm.verdict])).toEqual(
      arms.map((arm) => [arm.name, 'holds']),
    )
  }
  expect(document.scenarios.map(({ name }) => name)).toEqual(
    expect.arrayContaining(['pause', 'unlock', 'withdraw', 'late-write', 'campaign', 'data-loss']),
  )
})
