import { describe, expect, test } from 'vitest'
import { runLab } from './fixtures/run-lab.ts'

interface Arm {
  readonly name: string
  readonly verdict: string
  readonly problems: readonly string[]
  readonly metrics: Readonly<Record<string, number>>
}

describe('campaign on real servers', () => {
  test('overshoots without a lock and with one alone, and is exact with lock and guard', async () => {
    // The prize that is given out twice.
    const args = ['campaign', '--rounds', '4', '--lanes', '2', '--seed', '11', '--json']
    const { code, stdout, stderr, leftovers } = await runLab(args)
    const [campaign] = (JSON.parse(stdout) as { scenarios: { arms: Arm[] }[] }).scenarios
    const arms = campaign?.arms ?? []
    expect(arms.map(({ name, verdict, problems }) => [name, verdict, problems])).toEqual([
      ['no lock', 'holds', []],
      ['lock only', 'holds', []],
      ['lock + guard', 'holds', []],
    ])
    const [without, alone, guarded] = arms.map(({ metrics }) => metrics)
    for (const metrics of [without, alone]) expect(metrics?.['granted']).toBeGreaterThan(40)
    expect(guarded).toMatchObject({ granted: 40, limit: 40 })
    expect(guarded?.['pauses']).toBeGreaterThan(0)
    expect(guarded?.['perSecond']).toBeGreaterThan(0)
    expect({ code, stderr, leftovers }).toEqual({ code: 0, stderr: '', leftovers: [] })
  })
})
