import { expect, it } from 'vitest'
import { main } from '../../../src/sim/main.ts'
import { replayCommand, textOf } from '../../../src/sim/report.ts'

async function run(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  let [out, err] = ['', '']
  const code = await main(
    args,
    (text) => {
      out += text
    },
    (text) => {
      err += text
    },
  )
  return { code, out, err }
}

it('tells as JSON what was run and found', async () => {
  const { code, out, err } = await run('--json', '--schedules', '4', '--seed', '9')
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const { schedules, events, acquisitions, violations, ...rest } = JSON.parse(out)
  expect({ schedules, violations, rest }).toEqual({ schedules: 4, violations: [], rest: {} })
  expect(events).toBeGreaterThan(1000)
  expect(acquisitions).toBeGreaterThan(10)
})

it('tells the same of the same seeds, and of one scenario alone', async () => {
  const args = ['--json', '--schedules', '3', '--seed', '9', '--scenario', 'hunt']
  const [first, second] = [await run(...args), await run(...args)]
  expect(second.out).toBe(first.out)
  expect((await run('--schedules', '3', '--seed', '9')).out).toMatch(
    /^3 schedules, \d+ events, \d+ acquisitions, 0 violations\n$/,
  )
})

it.each([
  [['--schedules', '0']],
  [['--schedules', 'many']],
  [['--seed', '-1']],
  [['--seed', '2147483647', '--schedules', '2']],
  [['--scenario', 'toString']],
  [['--verbose']],
  [['--large']],
  [['--variant', 'exact']],
  [['--model', '--variant', 'toString']],
  [['nominal']],
])('refuses %j with the usage, on stderr', async (args) => {
  const { code, out, err } = await run(...args)
  expect({ code, out }).toEqual({ code: 2, out: '' })
  // Before, the usage alone: which of the options was wrong was left to find.
  expect(err).toMatch(/^.+\nusage: npm run -s sim -- /)
})

it('searches the exhaustive model, and shows the way to a bug', async () => {
  const { code, out, err } = await run('--model', '--variant', 'repairEarly')
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(
    /^repairEarly +94647 states {2}broken, .*\n {4}the counters of nodes 1, 2, 3 /,
  )
  const json = await run('--model', '--variant', 'repairReadOne', '--json')
  expect(JSON.parse(json.out).model).toMatchObject([{ name: 'repairReadOne', caught: 'model' }])
})

it('shows a broken schedule whole, and how to see it again', async () => {
  const one = { seed: 5, scenario: 'nominal', invariant: 'I1' } as const
  const two = { seed: 8, scenario: 'hunt', invariant: 'I3' } as const
  const text = await textOf({ schedules: 9, events: 1, acquisitions: 1, violations: [one, two] })
  expect(text).toMatch(/^9 schedules, 1 events, 1 acquisitions, 2 violations\n/)
  expect(text).toContain('seed 5, scenario nominal:')
  expect(text).toMatch(/\n +\d+\.\d{3} p\d {4}sends on \d: acquire (?:lock:)?[ab] as [\w-]{22}\n/)
  for (const broken of [one, two]) expect(text).toContain(replayCommand(broken))
  expect(replayCommand(two)).toBe('npm run -s sim -- --scenario hunt --seed 8 --schedules 1')
})

it.each([
  [['--schedules', 'x'], '--schedules is x, allowed: a whole number from 1 to 2147483647'],
  [['--jobs', '65'], '--jobs is 65, allowed: a whole number from 1 to 64'],
  [
    ['--seed', '2', '--schedules', '2147483647'],
    '--seed is 2, allowed: a whole number from 1 to 1',
  ],
  [['--scenario', 'x'], '--scenario is x, allowed: '],
  [['--variant', 'exact'], '--variant is exact, allowed: beside --model'],
  [['--verbose'], "Unknown option '--verbose'"],
])('says before the usage of %j what is wrong', async (args, words) => {
  expect((await run(...args)).err.startsWith(words)).toBe(true)
})
