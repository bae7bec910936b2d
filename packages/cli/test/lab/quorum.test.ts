import { expect, test } from 'vitest'
import { runLab } from './fixtures/run-lab.ts'

interface Report {
  readonly scenarios: readonly {
    readonly name: string
    readonly arms: readonly {
      readonly name: string
      readonly protected: boolean
      readonly rounds: number
      readonly metrics: Readonly<Record<string, number>>
      readonly verdict: string
    }[]
  }[]
}

// A node that is gone, or stands still, must not take the locks with it; a minority must grant none.
test('of three nodes one may be gone, and the part without a majority grants nothing', async () => {
  const { code, stdout, stderr, leftovers } = await runLab([
    ...['availability', 'split-brain', '--rounds', '10', '--seed', '5', '--json'],
  ])
  const [availability, splitBrain] = (JSON.parse(stdout) as Report).scenarios
  const counts = availability?.arms.map(({ name, metrics, verdict }) => {
    const { tried, succeeded } = metrics
    return [name, tried, succeeded, verdict]
  })
  expect(counts).toEqual([
    ['one redis, alive', 20, 20, 'holds'],
    ['one redis, killed', 20, 0, 'holds'],
    ['redlock of 3, all alive', 20, 20, 'holds'],
    ['redlock of 3, one killed', 20, 20, 'holds'],
    ['redlock of 3, one hung', 20, 20, 'holds'],
    ['redlock of 3, two killed', 20, 0, 'holds'],
    ['etcd of 3, all alive', 20, 20, 'holds'],
    ['etcd of 3, leader killed', 20, 20, 'holds'],
    ['etcd of 3, two killed', 20, 0, 'holds'],
  ])
  for (const { metrics } of availability?.arms ?? []) {
    const { p50Ms = 0, p99Ms = 0, maxMs = 0 } = metrics
    expect(0 < p50Ms && p50Ms <= p99Ms && p99Ms <= maxMs).toBe(true)
  }
  const shown = splitBrain?.arms.map(({ name, rounds, verdict }) => [name, rounds, verdict])
  expect(shown).toEqual([
    ['one redis, cut off', 2, 'holds'],
    ['redlock of 3, both ask', 2, 'holds'],
    ['redlock of 3, cut off', 2, 'holds'],
    ['etcd of 3, both ask', 2, 'holds'],
    ['etcd of 3, cut off', 2, 'holds'],
  ])
  const [control, asking, cutOff, etcdAsking, etcdCutOff] = splitBrain?.arms ?? []
  expect(control?.metrics).toMatchObject({ toldBefore: 0, heldByTwo: 2, refusedLate: 0 })
  expect(asking?.metrics).toEqual({ minorityGranted: 0, majorityGranted: 2 })
  expect(cutOff?.metrics).toMatchObject({ toldBefore: 2, heldByTwo: 0, refusedLate: 2 })
  expect(etcdAsking?.metrics).toEqual({ minorityGranted: 0, majorityGranted: 2 })
  expect(etcdCutOff?.metrics).toMatchObject({ toldBefore: 2, heldByTwo: 0, refusedLate: 2 })
  expect({ code, stderr, leftovers }).toEqual({ code: 0, stderr: '', leftovers: [] })
})
