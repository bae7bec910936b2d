import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { runLab, StartedLab } from '../../packages/cli/test/lab/fixtures/run-lab.ts'
import { GROUPS } from '../src/groups/index.ts'
import { readOptions } from '../src/options.ts'

const BENCH = fileURLToPath(new URL('../dist/main.js', import.meta.url))

/** With a temporary folder of its own, which is looked through when it has ended. */
function run(args: readonly string[], env: NodeJS.ProcessEnv = {}) {
  return runLab(args, { program: BENCH, env })
}

interface Row {
  readonly who: string
  readonly variant: string
  readonly inFlight: number
}

interface QuorumRow extends Row {
  readonly client: string
  readonly p50Ms: number
  readonly quorum: { readonly situation: string; readonly tries: number; readonly granted: number }
}

interface Lock {
  readonly packages: Readonly<Record<string, { readonly version?: string }>>
}

function versionsIn(folder: string): (name: string) => string | undefined {
  const path = new URL(`../../${folder}package-lock.json`, import.meta.url)
  const { packages } = JSON.parse(readFileSync(path, 'utf8')) as Lock
  return (name) => packages[`node_modules/${name}`]?.version
}

/** Said by the set-up; else a missing driver is a failure. */
const WHY_NO_SQLITE = process.env['HOLDFAST_NO_SQLITE']

const SHORT = ['--runs', '1', '--seconds', '0.1'] as const
const TINY = ['--no-peers', ...SHORT] as const

describe('npm run bench', () => {
  // Figures of a client that nothing else is tested with would be those of another product.
  it('has the very clients that the tests have', () => {
    const ours = versionsIn('')
    const its = versionsIn('bench/')
    for (const name of ['ioredis', 'redis', 'pg', 'postgres']) {
      expect(its(name), name).toBe(ours(name))
      expect(its(name), name).toMatch(/^\d/)
    }
  })

  it('prints one JSON text with a row for each who and client, whatever the figures are', async () => {
    const { code, stdout } = await run([...TINY, '--only', 'one-in-flight', '--json'])

    expect(code).toBe(0)
    const { commit, rows, peersLeftOut } = JSON.parse(stdout)
    expect(peersLeftOut).toBe('--no-peers')
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
      expect(row).toMatchObject({ group: 'one-in-flight', inFlight: 1, n: 1, requestsEach: 2 })
      for (const figure of [
        'perSecond',
        'p50Ms',
        'p99Ms',
        'ratio',
        'p50Ratio',
        'serverUsEach',
        'clientUsEach',
      ]) {
        expect(row[figure], `${figure} of ${row.who} on ${row.client}`).toBeGreaterThan(0)
      }
      expect(row.p99Ms).toBeGreaterThanOrEqual(row.p50Ms)
      expect(Number.isInteger(row.count / 200)).toBe(true)
    }
  })

  it('prints a table and the bars, and says who was left out', async () => {
    // As scripts/run.mjs says it, where the libraries cannot be installed.
    const env = { HOLDFAST_BENCH_NO_PEERS: 'no network' }
    const { code, stdout } = await run([...SHORT, '--only', 'one-in-flight'], env)

    expect(code).toBe(0)
    expect(stdout).toMatch(/ioredis +│ hand-written, with token +│ +\d+ │ +1\.00 │/)
    expect(stdout).toMatch(
      /multiple of hand-written with token +│ +<= 1\.06 \(1\.1\) │ +\d+\.\d+ │ (?:OK|ACCEPTED|SHORT)/,
    )
    expect(stdout).toContain('other libraries are left out: no network')
    expect(stdout).not.toContain('redlock')
  })

  // Three processes want one name; the intervals in which each held it must not overlap.
  it('measures contenders of three processes, and transactions, whose balance adds up', async () => {
    const groups = ['--only', '3-processes', '--only', 'transaction']
    const { code, stdout, stderr, leftovers } = await run([...TINY, ...groups, '--json'])

    expect(code, `${stderr}${stdout}`).toBe(0)
    expect(leftovers).toEqual([])
    const { rows, bars, failures } = JSON.parse(stdout)
    expect(failures).toEqual([])
    const own = rows.filter((row: { who: string }) => row.who === 'holdfast')
    expect(own).toMatchObject([
      { group: '3-processes', inFlight: 18 },
      { group: 'transaction', client: 'pg', variant: 'guard.transaction', requestsEach: 4 },
      { group: 'transaction', client: 'pg', variant: 'guard.update', requestsEach: 4 },
      { group: 'transaction', client: 'pg, pipeline', requestsEach: null },
      { group: 'transaction', client: 'pg, one statement', requestsEach: 1 },
      { group: 'transaction', client: 'postgres', requestsEach: null },
    ])
    expect(own[0].smallestShare).toBeGreaterThan(0)
    expect(bars).toContainEqual(
      expect.objectContaining({ group: 'transaction', figure: 4, wanted: '<= 4', verdict: 'OK' }),
    )
  })

  it('measures a quorum of three servers, one of them hung, killed, and two killed', async () => {
    const args = ['--quick', ...TINY, '--only', 'redlock', '--json']
    const { code, stdout, stderr, leftovers } = await run(args)

    expect(code, `${stderr}${stdout}`).toBe(0)
    expect(leftovers).toEqual([])
    const { rows, bars, failures } = JSON.parse(stdout)
    expect(failures).toEqual([])
    const own = rows.filter((row: Row) => row.variant === '')
    const situations = ['all alive', 'one hung', 'one killed', 'two killed']
    expect(own.map((row: QuorumRow) => [row.quorum.situation, row.client])).toEqual(
      situations.flatMap((situation) => [
        [situation, 'ioredis'],
        [situation, 'node-redis'],
      ]),
    )
    for (const { quorum, p50Ms } of own as QuorumRow[]) {
      expect(p50Ms).toBeGreaterThan(0)
      expect(quorum.granted, quorum.situation).toBe(
        quorum.situation === 'two killed' ? 0 : quorum.tries,
      )
    }
    expect(bars).toContainEqual(
      expect.objectContaining({ what: 'granted of 5, two killed', figure: 0, verdict: 'OK' }),
    )
  })

  it('measures etcd, alone, contended and with many who wait, and elections', async () => {
    const groups = GROUPS.filter((name) => name.startsWith('etcd') || name === 'election')
    const only = groups.flatMap((group) => ['--only', group])
    const { code, stdout, stderr, leftovers } = await run(['--quick', ...TINY, ...only, '--json'])

    expect(code, `${stderr}${stdout}`).toBe(0)
    expect(leftovers).toEqual([])
    const { rows, bars, failures } = JSON.parse(stdout)
    expect(failures).toEqual([])
    const named = rows.map(({ group, who, variant }: Row & { group: string }) =>
      [group, who, variant].filter((word) => word !== '').join(', '),
    )
    expect(named).toEqual([
      'etcd, hand-written, two Txn',
      'etcd, holdfast',
      'etcd-64-in-flight, hand-written, two Txn',
      'etcd-64-in-flight, holdfast',
      'etcd-16-contenders, hand-written, as Go does',
      'etcd-16-contenders, holdfast',
      'etcd-waiters, holdfast, 10 waiters',
      'etcd-waiters, holdfast, 500 waiters',
      'election, hand-written, one Txn',
      'election, holdfast, resign',
    ])
    for (const group of groups) {
      expect(
        bars.some((bar: { group: string }) => bar.group === group),
        group,
      ).toBe(true)
    }
  })

  // Eight processes want one name in a file, and the same check of overlaps.
  it('measures locks in files without any server, and leaves out what needs one', async ({
    skip,
  }) => {
    if (WHY_NO_SQLITE) skip(WHY_NO_SQLITE)
    const HOLDFAST_SERVERS = JSON.stringify({ servers: {}, missing: { redis: 'no apt' } })
    const { code, stdout, stderr, leftovers } = await run([...TINY, '--json'], { HOLDFAST_SERVERS })

    expect(code, `${stderr}${stdout}`).toBe(0)
    expect(leftovers).toEqual([])
    const { rows, failures, groupsLeftOut } = JSON.parse(stdout)
    expect(failures).toEqual([])
    expect(Object.keys(groupsLeftOut)).toEqual(GROUPS.filter((name) => !name.startsWith('sqlite')))
    expect(groupsLeftOut['one-in-flight']).toContain('no apt')
    const named = rows.map(({ who, variant }: Row) => [who, variant].join(', '))
    const alone = 'hand-written, with token, FULL, alone'
    const pairs = [
      'hand-written, with token, FULL',
      'holdfast, FULL',
      'hand-written, with token, NORMAL',
      'holdfast, NORMAL',
    ]
    expect(named).toEqual([...pairs, alone, ...pairs])
    expect(rows[0]).toMatchObject({ group: 'sqlite', inFlight: 1, ratio: 1, jain: null })
    for (const row of rows.filter(({ inFlight }: Row) => inFlight > 1)) {
      expect(row).toMatchObject({ group: 'sqlite-8-processes', inFlight: 8 })
      expect(row.shares).toHaveLength(8)
    }
  })

  it('ends with exit code 3 when a group was asked for and its server is missing', async () => {
    const HOLDFAST_SERVERS = JSON.stringify({ servers: {}, missing: { redis: 'no apt' } })
    const { code, stdout, stderr } = await run([...TINY, '--only', 'one-in-flight', '--json'], {
      HOLDFAST_SERVERS,
    })

    expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
    expect(stderr).toContain('no apt')
  })

  // A server or a process of contenders that is left behind slows down every later run.
  it.for([
    // Its server, and three processes of contenders.
    ['3-processes', 4],
    ['sqlite-8-processes', 8],
    ['etcd-waiters', 1],
  ] as const)(
    'leaves nothing behind when %s is ended in the middle',
    async ([group, processes], { skip }) => {
      if (WHY_NO_SQLITE && group.startsWith('sqlite')) skip(WHY_NO_SQLITE)
      const bench = new StartedLab(['--no-peers', '--only', group], { program: BENCH })
      try {
        await bench.until('everything runs', () => bench.processes().length >= processes)
        bench.child.kill('SIGTERM')

        expect((await bench.ended).code).toBe(143)
        expect(await bench.survivors()).toEqual([])
        expect(bench.leftovers()).toEqual([])
      } finally {
        await bench.clean()
      }
    },
  )

  it('ends with exit code 2 on a wrong option, before anything is started', async () => {
    const { code, stdout, stderr } = await run(['--only', 'redlocks'])

    expect(stderr).toContain("--only: there is no group 'redlocks'; allowed: one-in-flight,")
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })

  it.each([
    [['--runs', '0'], "--runs: '0' is not allowed; allowed: a whole number from 1 to 99"],
    [['--runs', '2.5'], "--runs: '2.5' is not allowed; allowed: a whole number"],
    [['--seconds', '601'], "--seconds: '601' is not allowed; allowed: a number from 0.1 to 600"],
    [['--seconds', 'ten'], "--seconds: 'ten' is not allowed"],
    [['quick'], "unexpected argument 'quick'"],
    [['--fast'], "there is no option '--fast'; allowed: --quick, --only, --json,"],
    [['-q'], "there is no option '-q'; allowed: --quick,"],
    [['--constructor'], "there is no option '--constructor'; allowed: --quick,"],
    [['--only'], '--only: its value is missing'],
    [['--only', '--json'], '--only: its value is missing'],
    [['--json=yes'], "--json: it takes no value, and 'yes' was given"],
  ])('refuses %j and says what is allowed', (args, message) => {
    expect(() => readOptions(args)).toThrow(message)
  })
})
