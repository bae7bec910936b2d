import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import { CommanderError } from 'commander'
import { describe, expect, test } from 'vitest'
import { type LabOptions, labCommand, replayCommand } from '../../src/lab/args.ts'
import { SCENARIOS } from '../../src/lab/scenarios/index.ts'

/** Options for right arguments; for wrong ones what the user is told. */
async function parse(...args: string[]): Promise<LabOptions | string> {
  let options: LabOptions | null = null
  let said = ''
  const command = labCommand(async (given) => {
    options = given
  })
  command.exitOverride().configureOutput({
    writeErr: (text) => {
      said += text
    },
  })
  try {
    await command.parseAsync(args, { from: 'user' })
  } catch (error) {
    if (error instanceof CommanderError) return said + error.message
    throw error
  }
  return options ?? 'nothing was done'
}

describe('arguments of the lab', () => {
  test('without any, all scenarios run with the quick profile', async () => {
    // The bare command is what everybody tries first.
    expect(await parse()).toMatchObject({
      ...{ scenarios: SCENARIOS.map(({ scenario }) => scenario.name), profile: 'quick' },
      ...{ rounds: 100, lanes: 10 },
      ...{ json: false, history: null, pause: { name: 'sigstop' } },
    })
  })

  test('names, flags and numbers are taken as they are, in any order', async () => {
    // `--rounds 5 pause` and `pause --rounds 5` are one wish.
    const options = await parse('--rounds', '5', 'unlock', '--seed', '7', 'pause', '--json')
    expect(options).toMatchObject({
      scenarios: ['unlock', 'pause'],
      rounds: 5,
      seed: 7,
      json: true,
    })
    expect(await parse('pause', 'pause')).toMatchObject({ scenarios: ['pause'] })
    expect(await parse('--full')).toMatchObject({ profile: 'full', rounds: 400 })
    expect(await parse('--full', '--rounds', '3')).toMatchObject({ profile: 'full', rounds: 3 })
  })

  test('only the bare command, or --quick alone, is the quick profile of all', async () => {
    // Five minutes are promised for that and for nothing larger.
    for (const args of [[], ['--quick'], ['--seed', '3', '--json']]) {
      expect(await parse(...args)).toMatchObject({ isQuickOfAll: true })
    }
    for (const args of [['unlock'], ['--full'], ['--rounds', '100']]) {
      expect(await parse(...args)).toMatchObject({ isQuickOfAll: false })
    }
  })

  test('a seed is drawn when none is given', async () => {
    // A fixed seed would make every run draw the same names and orders.
    const seeds = new Set<number>()
    for (let n = 0; n < 5; n++) seeds.add(((await parse()) as LabOptions).seed)
    expect(seeds.size).toBeGreaterThan(1)
    for (const seed of seeds) expect(Number.isSafeInteger(seed)).toBe(true)
  })

  test('collections get fewer lanes, and more than that are refused with the limit', async () => {
    // They keep the cores busy on which B must run.
    const max = 2 * availableParallelism()
    expect(await parse('--pause', 'gc')).toMatchObject({ lanes: Math.min(10, max) })
    const said = await parse('--pause', 'gc', '--lanes', '40')
    if (max < 40) expect(said).toContain(`argument '40' is not allowed; with --pause gc`)
    expect(await parse('--pause', 'block', '--lanes', '40')).toMatchObject({ lanes: 40 })
  })

  test.each([
    [
      ['--rounds', '0'],
      ['--rounds', "'0'", '1 to 100000'],
    ],
    [
      ['--rounds', '1.5'],
      ['--rounds', "'1.5'", '1 to 100000'],
    ],
    [
      ['--rounds', 'many'],
      ['--rounds', "'many'", '1 to 100000'],
    ],
    [
      ['--seed', '-1'],
      ['--seed', "'-1'", '0 to 4294967295'],
    ],
    [
      ['--lanes', '41'],
      ['--lanes', "'41'", '1 to 40'],
    ],
    [
      ['--pause', 'nap'],
      ['--pause', "'nap'", 'sigstop, sleep, gc, block'],
    ],
    [
      ['--history', '/nowhere/at/all'],
      ['--history', "'/nowhere/at/all'", 'allowed: a file'],
    ],
    [
      ['--history', tmpdir()],
      ['--history', tmpdir(), 'allowed: a file'],
    ],
    [
      ['--record', '/nowhere/at/all.md'],
      ['--record', "'/nowhere/at/all.md'", 'allowed: a file'],
    ],
    [
      ['--record', join(tmpdir(), 'record.txt')],
      ['--record', 'record.txt', 'its name ending in .md'],
    ],
    [
      ['--quick', '--full'],
      ['--full', '--quick'],
    ],
    [['pauze'], ["'pauze'", 'pause, unlock']],
    [
      ['--embedded', 'pauze'],
      ["'pauze'", 'known: pause, unlock, withdraw, late-write, campaign, watchdog'],
    ],
    [
      ['data-loss', '--embedded'],
      ["'data-loss' needs servers", 'with --embedded: pause, unlock'],
    ],
    [
      ['--round', '5'],
      ['--round', '--rounds'],
    ],
    [['--rounds'], ['--rounds', 'missing']],
  ])('%j is refused, with option, value and what is allowed', async (args, parts) => {
    // "Invalid argument" alone sends people to the source.
    const said = await parse(...args)
    expect(said).toBeTypeOf('string')
    for (const part of parts) expect(said).toContain(part)
  })

  test('the replay command asks for the same run', async () => {
    // A seed without rounds, lanes and pause is another run.
    const history = join(tmpdir(), 'unused-history')
    const first = (await parse('unlock', '--rounds', '9', '--history', history)) as LabOptions
    const command = replayCommand(first, 'npm run -s lab --')
    expect(command).toBe(
      `npm run -s lab -- unlock --rounds 9 --seed ${first.seed} --pause sigstop --lanes 10`,
    )
    const again = await parse(...command.split(' ').slice(5))
    expect(again).toEqual({ ...first, history: null, record: null })
  })

  test('--embedded is of those scenarios that need no server, and its replay asks for it too', async () => {
    // A replay on servers would be another experiment.
    const names = [
      'pause',
      'unlock',
      'withdraw',
      'late-write',
      'campaign',
      'watchdog',
      'failover',
      'ttl',
    ]
    const all = (await parse('--embedded')) as LabOptions
    expect(all).toMatchObject({ scenarios: names, isEmbedded: true, isQuickOfAll: true })
    expect(await parse()).toMatchObject({ isEmbedded: false })
    const command = replayCommand(all, 'npm run -s lab --')
    expect(command).toContain(`lab -- --embedded ${names.join(' ')} --rounds 100 --seed`)
    const again = await parse(...command.split(' ').slice(5))
    expect(again).toEqual({ ...all, isNamed: true, isQuickOfAll: false })
  })
})
