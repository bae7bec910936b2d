import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import type { Verdict } from '../../src/lab/checker.ts'
import { exitCodeOf } from '../../src/lab/lab.ts'
import { runLab } from './fixtures/run-lab.ts'

describe('the exit code of a run', () => {
  const cases: readonly (readonly [readonly Verdict[], number])[] = [
    [['holds'], 0],
    [['holds', 'holds', 'holds'], 0],
    [['broken'], 1],
    [['void'], 1],
    [['holds', 'broken'], 1],
    [['broken', 'holds'], 1],
    [['holds', 'void'], 1],
    [['void', 'holds'], 1],
    [['holds', 'void', 'broken', 'holds'], 1],
    [['broken', 'broken'], 1],
    [['void', 'void'], 1],
  ]
  test.each(cases)('of %j is %i', (verdicts, code) => {
    // A gate that reads the exit code alone would let a broken guard through.
    expect(exitCodeOf(verdicts.map((verdict) => ({ verdict })))).toBe(code)
  })

  test('is 1 when a whole run finds a guard that was taken out, and the report says so', async () => {
    // The decision is right, and the program does not use it.
    const program = fileURLToPath(new URL('./fixtures/sabotaged-lab.mjs', import.meta.url))
    const { code, signal, stdout, stderr, leftovers } = await runLab(
      ['pause', '--pause', 'sleep', '--rounds', '2', '--lanes', '2', '--seed', '1', '--json'],
      { program },
    )
    expect({ code, signal, stderr, leftovers }).toEqual({
      ...{ code: 1, signal: null, stderr: '', leftovers: [] },
    })
    const { scenarios } = JSON.parse(stdout) as { scenarios: { arms: { verdict: string }[] }[] }
    expect(scenarios.map(({ arms }) => arms.map(({ verdict }) => verdict))).toEqual([
      ['void', 'broken'],
    ])
  })
})
