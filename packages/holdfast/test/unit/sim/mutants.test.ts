import { describe, expect, it } from 'vitest'
import { MUTANTS, type Mutant } from '../../../src/sim/mutants.ts'
import { judge, patched, readSource } from '../../../src/sim/mutate.ts'

const PATIENCE_MS = 300_000
/** The rarest of them needed 136 when it was put here. */
const SEEDS = { first: 1, count: 1000 }

describe('the list of bugs', () => {
  it('has each under a name of its own', () => {
    expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length)
  })

  // The accident: the source moves on, and what was a bug is no change at all.
  it.each(MUTANTS)('$name stands once in its source, and changes it', (mutant) => {
    const source = readSource(mutant)
    expect(patched(source, mutant)).not.toBe(source)
  })

  it('is wrong when a text stands nowhere, or twice', () => {
    const mutant: Mutant = { ...(MUTANTS[0] as Mutant), text: 'a', replacement: 'b' }
    for (const source of ['', 'aa']) {
      expect(() => patched(source, mutant)).toThrow(/its text stands \d times/)
    }
    expect(patched('xax', { ...mutant, replacement: '$&$1' })).toBe('x$&$1x')
  })
})

// The machine that finds no bug that is there would find none that comes.
it.each(MUTANTS)('$name is caught', { timeout: PATIENCE_MS }, async (mutant) => {
  const { name, caught, seed, invariant } = await judge(mutant, SEEDS)
  expect({ name, caught }).toEqual({ name: mutant.name, caught: 'simulation' })
  expect(seed).toBeGreaterThan(0)
  expect(invariant).toMatch(/^(?:I[1-6]|error)$/)
})

it('a change that is no bug is not caught', { timeout: PATIENCE_MS }, async () => {
  const harmless: Mutant = {
    name: 'harmless',
    scenario: 'nominal',
    file: 'lock/lease.ts',
    text: 'const REQUEST_SPENT_MS = 2000',
    replacement: 'const REQUEST_SPENT_MS = 2001',
  }
  const verdict = await judge(harmless, { first: 1, count: 20 })
  expect(verdict).toEqual({ name: 'harmless', caught: false, seed: null, invariant: null })
})
