import { spawn } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const BENCH = fileURLToPath(new URL('../dist/main.js', import.meta.url))

interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

function run(args: readonly string[]): Promise<Ended> {
  const child = spawn(process.execPath, [BENCH, ...args], { stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  return new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code) => resolve({ code, stdout, stderr }))
  })
}

const TINY = ['--no-peers', '--runs', '1', '--seconds', '0.1'] as const

describe('npm run bench', () => {
  it('prints one JSON text with a row for each who and client, whatever the figures are', async () => {
    const { code, stdout } = await run([...TINY, '--only', 'one-in-flight', '--json'])

    expect(code).toBe(0)
    const { commit, rows } = JSON.parse(stdout)
    expect(commit).toMatch(/^(?:[0-9a-f]{40}(?:-dirty)?|unknown)$/)
    for (const client of ['ioredis', 'node-redis', 'node-redis, timeout 0']) {
      const own = rows.filter((row: { client: string }) => row.client === client)
      expect(own.map((row: { who: string }) => row.who)).toEqual([
        'hand-written',
        'holdfast',
        'hand-written',
      ])
      // The first hand-written one is what the ratios are to.
      expect(own[0]).toMatchObject({ variant: 'with token', ratio: 1, p50Ratio: 1 })
    }
    for (const row of rows) {
      expect(row).toMatchObject({ group: 'one-in-flight', inFlight: 1, n: 1 })
      for (const figure of ['perSecond', 'p50Ms', 'p99Ms', 'ratio', 'p50Ratio']) {
        expect(row[figure], `${figure} of ${row.who} on ${row.client}`).toBeGreaterThan(0)
      }
      expect(row.p99Ms).toBeGreaterThanOrEqual(row.p50Ms)
      expect(Number.isInteger(row.count / 200)).toBe(true)
    }
  })

  it('prints a table and the bars, and says who was left out', async () => {
    const { code, stdout, stderr } = await run([...TINY, '--only', 'one-in-flight'])

    expect(code).toBe(0)
    expect(stdout).toMatch(/ioredis +│ hand-written, with token +│ +\d+ │ +1\.00 │/)
    expect(stdout).toMatch(
      /multiple of hand-written with token +│ +<= 1\.06 \(1\.1\) │ +\d+\.\d+ │ (?:OK|ACCEPTED|SHORT)/,
    )
    expect(stderr).toContain('other libraries are left out: --no-peers')
  })

  // Three processes want one name; the intervals in which each held it must not overlap.
  it('measures contenders of three processes, and transactions, whose balance adds up', async () => {
    const groups = ['--only', '3-processes', '--only', 'transaction']
    const { code, stdout, stderr } = await run([...TINY, ...groups, '--json'])

    expect(code, stderr).toBe(0)
    const { rows, bars, failures } = JSON.parse(stdout)
    expect(failures).toEqual([])
    const own = rows.filter((row: { who: string }) => row.who === 'holdfast')
    expect(own).toMatchObject([
      { group: '3-processes', inFlight: 18 },
      { group: 'transaction', client: 'pg', inFlight: 1, requestsEach: 4 },
      { group: 'transaction', client: 'pg, pipeline', requestsEach: null },
    ])
    expect(own[0].smallestShare).toBeGreaterThan(0)
    expect(bars).toContainEqual(
      expect.objectContaining({ group: 'transaction', figure: 4, wanted: '<= 4', verdict: 'OK' }),
    )
  })

  it.each([
    [['--only', 'redlock'], "there is no group 'redlock'; allowed: one-in-flight,"],
    [['--runs', '0'], "--runs: '0' is not allowed; allowed: a whole number from 1 to 99"],
    [['--runs', '2.5'], "--runs: '2.5' is not allowed; allowed: a whole number"],
    [['--seconds', '601'], "--seconds: '601' is not allowed; allowed: a number from 0.1 to 600"],
    [['--seconds', 'ten'], "--seconds: 'ten' is not allowed"],
    [['quick'], "unexpected argument 'quick'"],
    [['--fast'], '--fast'],
  ])('refuses %j with exit code 2 and says what is allowed', async (args, message) => {
    const { code, stdout, stderr } = await run(args)

    expect(stderr).toContain(message)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })
})
