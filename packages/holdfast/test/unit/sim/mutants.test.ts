/** The list of bugs, and the machine that puts them in; the gate runs it over all of them. */
import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ELSEWHERE, MUTANTS, type Mutant, NODE_SIDE } from '../../../src/sim/mutants.ts'
import { Mutants, patched, patchedFiles, readSource } from '../../../src/sim/mutate.ts'
import { split } from '../../../src/sim/node-side-mutants.ts'
import { SCENARIOS } from '../../../src/sim/scenarios.ts'
import { NODE_MUTANTS as REDIS_NODE_MUTANTS } from '../../support/node-mutants.ts'
import { REDLOCK_NODE_MUTANTS } from '../../support/redlock-node-mutants.ts'

const ROOT = fileURLToPath(new URL('../../../../../', import.meta.url))
const PATIENCE_MS = 300_000
const NODE_MUTANTS = [...REDIS_NODE_MUTANTS, ...REDLOCK_NODE_MUTANTS]
const { simulated, declared } = split(NODE_MUTANTS)
const ALL: readonly Mutant[] = [...MUTANTS, ...simulated]
const CERTAIN = named('memoryBareDel')
const HARMLESS: Mutant = {
  name: 'harmless',
  scenario: 'nominal',
  world: 'memory',
  seed: 1,
  patches: [
    {
      name: 'harmless',
      file: 'lock/lease.ts',
      text: 'const REQUEST_SPENT_MS = 2000',
      replacement: 'const REQUEST_SPENT_MS = 2001',
    },
  ],
}

function named(name: string): Mutant {
  return ALL.find((one) => one.name === name) as Mutant
}

describe('the list of bugs', () => {
  it('has each under a name of its own, and at least 36', () => {
    const names = [...ALL, ...declared, ...ELSEWHERE].map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    expect(ALL.length).toBeGreaterThanOrEqual(36)
  })

  // The accident: the source moves on, and what was a bug is no change at all.
  it.each(ALL)('$name stands once in its source, and changes it', (mutant) => {
    for (const [file, text] of patchedFiles(mutant)) expect(text).not.toBe(readSource({ file }))
  })

  it.each(ALL)('$name is looked for where its world is', ({ scenario, world }) => {
    const { worlds } = SCENARIOS[scenario]
    expect(worlds).toContain(world)
  })

  it('knows of each bug of a node that the comparison falls for its Lua text', () => {
    expect(declared).toHaveLength(NODE_MUTANTS.length)
    for (const { caught } of declared) expect(caught).toBe('differential')
    const names = NODE_MUTANTS.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    expect(names).toEqual(expect.arrayContaining(Object.keys(NODE_SIDE)))
    expect(() => split([])).toThrow(/no bug of a node is called/)
  })

  it('names a file that is there for what is found elsewhere', () => {
    for (const { where } of [...declared, ...ELSEWHERE]) {
      expect(() => readFileSync(join(ROOT, where))).not.toThrow()
    }
  })

  it('is wrong when a text stands nowhere, or twice', () => {
    const patch = { name: 'x', file: 'x.ts', text: 'a', replacement: 'b' }
    for (const source of ['', 'aa']) {
      expect(() => patched(source, patch)).toThrow(/its text stands \d times/)
    }
    expect(patched('xax', { ...patch, replacement: '$&$1' })).toBe('x$&$1x')
  })
})

describe('the machine', () => {
  let compiled: Mutants

  beforeAll(async () => {
    compiled = await Mutants.compile([CERTAIN, HARMLESS])
  }, PATIENCE_MS)

  afterAll(() => compiled?.remove())

  it('catches a bug with the seed that is known, and with the seeds that it is given', {
    timeout: PATIENCE_MS,
  }, async () => {
    const known = await compiled.judge(CERTAIN, { first: null, count: 100 })
    expect(known).toMatchObject({ name: CERTAIN.name, caught: 'simulation' })
    expect(known.invariant).toMatch(/^(?:I[1-8]|error)$/)
    const later = await compiled.judge(CERTAIN, { first: 1000, count: 100 })
    expect(later.seed).toBeGreaterThanOrEqual(1000)
  })

  it('does not catch a change that is no bug', { timeout: PATIENCE_MS }, async () => {
    const verdict = await compiled.judge(HARMLESS, { first: null, count: 20 })
    expect(verdict).toEqual({ name: 'harmless', caught: false, seed: null, invariant: null })
  })

  // A violation that does not fail the run that found it is read by nobody.
  it('ends with 1 when something is broken, with its trace and its replay, on threads too', {
    timeout: PATIENCE_MS,
  }, async () => {
    const folder = compiled.folderOf(CERTAIN)
    const text = await ended(folder, '--scenario', 'nominal', '--schedules', '30', '--jobs', '2')
    expect(text.code).toBe(1)
    expect(text.out).toMatch(
      /^\d+ schedules, .*, [1-9]\d* violations\n\nseed \d+, scenario nominal:\n {2}I\d: /,
    )
    const replay = /npm run -s sim -- (--scenario nominal --seed \d+ --schedules 1)/
    const words = replay.exec(text.out)?.[1] ?? ''
    expect(words).not.toBe('')
    const again = await ended(folder, ...words.split(' '), '--json')
    expect(again.code).toBe(1)
    const { schedules, violations } = JSON.parse(again.out)
    expect(schedules).toBe(1)
    expect(violations[0]).toMatchObject({ scenario: 'nominal', seed: expect.any(Number) })
    expect(violations[0].invariant).toMatch(/^I[1-8]$/)
  })

  it('finds on two threads what it finds on one', { timeout: PATIENCE_MS }, async () => {
    const folder = compiled.folderOf(HARMLESS)
    const args = ['--schedules', '24', '--seed', '7', '--json']
    const [one, two] = [await ended(folder, ...args), await ended(folder, ...args, '--jobs', '2')]
    expect(JSON.parse(two.out)).toEqual(JSON.parse(one.out))
    expect(JSON.parse(one.out)).toMatchObject({ schedules: 24, violations: [] })
  })
})

function ended(folder: string, ...args: string[]): Promise<{ code: number; out: string }> {
  return new Promise((resolve) => {
    const options = { maxBuffer: 50_000_000 }
    execFile(process.execPath, [join(folder, 'cli.js'), ...args], options, (error, out) => {
      resolve({ code: Number(error?.code ?? 0), out })
    })
  })
}
