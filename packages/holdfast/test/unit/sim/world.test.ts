import { expect, it } from 'vitest'
import { simulate } from '../../../src/sim/report.ts'
import { SCENARIOS, type ScenarioName } from '../../../src/sim/scenarios.ts'
import { runSchedule } from '../../../src/sim/world.ts'

const NAMES = Object.keys(SCENARIOS) as ScenarioName[]
const PATIENCE_MS = 300_000

// A violation that cannot be replayed is a rumour.
it.each(NAMES)('one seed gives one trace, byte by byte: %s', async (name) => {
  for (const seed of [1, 2, 77]) {
    const [first, second] = [
      await runSchedule(seed, name, true),
      await runSchedule(seed, name, true),
    ]
    expect(first.trace.length).toBeGreaterThan(500)
    expect(second.trace.join('\n')).toBe(first.trace.join('\n'))
    expect(second.history).toEqual(first.history)
    const silent = await runSchedule(seed, name)
    expect([silent.events, silent.history]).toEqual([first.events, first.history])
  }
  const other = await runSchedule(3, name, true)
  expect(other.trace).not.toEqual((await runSchedule(1, name, true)).trace)
})

// A simulation in which nothing goes wrong finds nothing.
it.each(NAMES)('every accident, and every way of a lock, comes by: %s', async (name) => {
  const words = name === 'hunt' ? [...WORDS, 'locks clock steps by'] : WORDS
  const seen = new Set<string>()
  const outcomes = new Set<string>()
  for (let seed = 1; seed <= 30; seed++) {
    const { trace, history } = await runSchedule(seed, name, true)
    for (const line of trace) for (const word of words) if (line.includes(word)) seen.add(word)
    for (const { outcome } of history.writes) outcomes.add(outcome)
  }
  expect([...seen].sort()).toEqual([...words].sort())
  expect([...outcomes].sort()).toEqual(['acknowledged', 'refused', 'unknown'])
})

const WORDS = [
  'paused for',
  'suspended for',
  'dies',
  'is cut off',
  'wall clock steps',
  'locks paused',
  'data  paused',
  'sends again: acquire',
  'lost: acquire',
  'lost: renew',
  'lost: release',
  'has done: hand',
  'has done: cancel',
  'has done: wake-up',
  'has the answer: renew',
  'fails: LeaseLostError',
  'fails: LockHeldError',
  'fails: OutcomeUnknownError',
  'fails: StaleTokenError',
]

it('400 schedules break nothing, and leases are held in them', {
  timeout: PATIENCE_MS,
}, async () => {
  const { schedules, acquisitions, events, violations } = await simulate({
    schedules: 400,
    seed: 1000,
    scenario: null,
  })
  expect(violations).toEqual([])
  expect(schedules).toBe(400)
  expect(acquisitions).toBeGreaterThan(2000)
  expect(events).toBeGreaterThan(100_000)
})
