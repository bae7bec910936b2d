import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { AdmissionTable } from '../../../src/backends/redlock/admission-table.ts'
import type { Mutant } from '../../../src/sim/mutants.ts'
import { Mutants } from '../../../src/sim/mutate.ts'
import { NodeClient } from '../../../src/sim/node/client.ts'
import { RedisNode } from '../../../src/sim/node/node.ts'
import { type Parts, runAdmissionSchedule } from '../../support/admission-schedule.ts'

const SCHEDULES = 100
const MUTANT_SCHEDULES_MAX = 2000
const PATIENCE_MS = 300_000

const TABLE = 'backends/redlock/admission-table.ts'

const bug = (name: string, file: string, text: string, replacement: string): Mutant => ({
  name,
  scenario: 'nominal',
  world: 'redis',
  patches: [{ name, file, text, replacement }],
  seed: 1,
})

const BUGS: readonly Mutant[] = [
  // The node was lost again while somebody waited for the loss before.
  bug(
    'admitWithoutInc',
    'sim/node/scripts/redlock/admission.ts',
    'const isTheOneWaitedFor = marker.inc === inc && marker.runId',
    'const isTheOneWaitedFor = marker.runId',
  ),
  bug(
    'admitOnEarlierWait',
    TABLE,
    'if (inc !== null && !this.isNoted(node, inc)) this.#noted.set(node, { inc, readAtMs })',
    'if (inc !== null) this.#noted.set(node, { inc, readAtMs: this.#noted.get(node)?.readAtMs ?? readAtMs })',
  ),
  // Whoever wrote the marker may have waited; when, nobody else knows.
  bug(
    'admitOnOthersWait',
    TABLE,
    'this.#noted.set(node, { inc, readAtMs })',
    'this.#noted.set(node, { inc, readAtMs: readAtMs - waitMsOf(this.#longestMs) })',
  ),
  // A lease of before the loss gets its token after the counters were read.
  bug(
    'countersBeforeTheWait',
    TABLE,
    'if (ripe.length === 0) return null\n    const known = await this.#completeCountersOf(voting)',
    'if (voting.length === this.#nodes.length) this.early = null\n' +
      '    const known = (this.early ??= await this.#completeCountersOf(voting))\n' +
      '    if (ripe.length === 0) return null',
  ),
  bug(
    'countersOfTooFew',
    TABLE,
    'if (known.length < this.#quorum) return null\n    return { nodes: ripe, highest: highestOf(known)',
    'return { nodes: ripe, highest: highestOf(known.slice(0, 1))',
  ),
]

describe('nodes that lose their data, and are let in by two programs', () => {
  it.each([1, 3, 5])(
    'of %i: no node votes too early, or below a token',
    async (nodeCount) => {
      const all = { admissions: 0, confirmed: 0 }
      for (let seed = 1; seed <= SCHEDULES; seed++) {
        const parts = { AdmissionTable, RedisNode, NodeClient }
        const { violations, admissions, confirmed } = await runAdmissionSchedule(
          parts,
          seed,
          nodeCount,
        )
        expect({ seed, violations }).toEqual({ seed, violations: [] })
        all.admissions += admissions
        all.confirmed += confirmed
      }
      // Schedules in which nothing happens would show nothing.
      expect(all.admissions).toBeGreaterThanOrEqual(SCHEDULES * nodeCount)
      expect(all.confirmed).toBeGreaterThan(SCHEDULES)
    },
    PATIENCE_MS,
  )

  let compiled: Mutants

  beforeAll(async () => {
    compiled = await Mutants.compile(BUGS)
  }, PATIENCE_MS)

  afterAll(() => compiled.remove())

  it.each(BUGS)(
    '$name is caught',
    async (mutant) => {
      const parts = await partsIn(compiled.folderOf(mutant))
      let caught: number | null = null
      for (let seed = 1; seed <= MUTANT_SCHEDULES_MAX && caught === null; seed++) {
        const { violations } = await runAdmissionSchedule(parts, seed, 3)
        if (violations.length > 0) caught = seed
      }
      expect(caught).not.toBeNull()
    },
    PATIENCE_MS,
  )
})

async function partsIn(folder: string): Promise<Parts> {
  const load = (file: string): Promise<object> => import(pathToFileURL(join(folder, file)).href)
  const [table, node, client] = await Promise.all([
    load('../backends/redlock/admission-table.js'),
    load('node/node.js'),
    load('node/client.js'),
  ])
  return { ...table, ...node, ...client } as Parts
}
