/**
 * Where bugs on the side of a lock node show, by their names in test/support/node-mutants.ts, which has
 * each twice: its Lua text falls to the comparison with a real Redis
 * (test/faults/redis-model-mutants.test.ts), its model to the simulation.
 *
 * Those that are not here need what no contender of the simulation does: an operator, a minimum hold,
 * a proclamation, a foreign key. Of them the comparison alone finds both halves.
 */
import type { Shown } from './mutant.ts'

/** `as`: its name in the list of the protocols, where it has one. */
export type NodeSide = Shown & Readonly<{ as?: string }>

const NOMINAL = { scenario: 'nominal', world: 'redis', seed: 1 } as const
const HUNT = { scenario: 'hunt', world: 'redis', seed: 1 } as const
const LOSSLESS = { scenario: 'lossless', world: 'redis', seed: 1 } as const

export const NODE_SIDE: Readonly<Record<string, NodeSide>> = {
  'acquire sees no tombstone of a free name': { ...LOSSLESS },
  'acquire repeats the grant to whoever asks': { ...NOMINAL },
  'acquire writes no TTL': { ...NOMINAL, as: 'noTTL' },
  'the counter goes back to the clock': { ...HUNT },
  'release deletes whosever it is': { ...NOMINAL, as: 'bareDel' },
  'renew brings back what is over': { ...LOSSLESS, as: 'extendResurrect' },
  'cancel leaves no tombstone': { ...LOSSLESS, as: 'noTombstone' },
  'cancel leaves a tombstone only where there was nothing to delete': {
    ...LOSSLESS,
    as: 'tombOnlyIfMissing',
  },
  'hand-over takes no notice of the owner': { ...NOMINAL },
  'hand-over grants to an owner that was cancelled': { ...LOSSLESS },
  'whoever asks may let the server grant': { ...NOMINAL, scenario: 'amnesia' },
}
