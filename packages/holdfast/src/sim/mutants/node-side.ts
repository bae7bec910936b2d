/**
 * Where bugs on the side of a lock node show, by their names in test/support/node-mutants.ts and
 * redlock-node-mutants.ts, which have each twice: its Lua text falls to the comparison with a real Redis
 * (test/faults/redis-model-mutants.test.ts), its model to the simulation.
 *
 * Those that are not here need what no contender of the simulation does: an operator, a minimum hold,
 * a proclamation, a foreign key; or, on one node of several, more accidents in one order than are drawn
 * in a few hundred schedules. Of them the comparison alone finds both halves.
 */
import type { Shown } from './mutant.ts'

/** `as`: its name in the list of the protocols, where it has one. */
export type NodeSide = Shown & Readonly<{ as?: string }>

export const NODE_SIDE: Readonly<Record<string, NodeSide>> = {
  'acquire sees no tombstone of a free name': { scenario: 'lossless', world: 'redis', seed: 12 },
  'acquire repeats the grant to whoever asks': { scenario: 'nominal', world: 'redis', seed: 1 },
  'acquire writes no TTL': { scenario: 'nominal', world: 'redis', seed: 1, as: 'noTTL' },
  'the counter goes back to the clock': { scenario: 'hunt', world: 'redis', seed: 1 },
  'release deletes whosever it is': { scenario: 'nominal', world: 'redis', seed: 1, as: 'bareDel' },
  'renew brings back what is over': {
    scenario: 'lossless',
    world: 'redis',
    seed: 1,
    as: 'extendResurrect',
  },
  'cancel leaves no tombstone': {
    scenario: 'lossless',
    world: 'redis',
    seed: 12,
    as: 'noTombstone',
  },
  'cancel leaves a tombstone only where there was nothing to delete': {
    scenario: 'lossless',
    world: 'redis',
    seed: 137,
    as: 'tombOnlyIfMissing',
  },
  'hand-over takes no notice of the owner': { scenario: 'nominal', world: 'redis', seed: 4 },
  'hand-over grants to an owner that was cancelled': {
    scenario: 'lossless',
    world: 'redis',
    seed: 148,
  },
  'whoever asks may let the server grant': { scenario: 'amnesia', world: 'redis', seed: 67 },
  'a node without a marker votes at once': {
    scenario: 'blackout',
    world: 'redlock3',
    seed: 2,
    as: 'amnesiaNaive',
  },
  'a node grants without a TTL': {
    scenario: 'nominal',
    world: 'redlock3',
    seed: 1,
    as: 'noTTLOnRedlock',
  },
  'the recorded token is raised for whoever asks': {
    scenario: 'wallback',
    world: 'redlock3',
    seed: 7,
    as: 'raiseUncond',
  },
  'a node is granted without its tombstone being seen': {
    scenario: 'nominal',
    world: 'redlock3',
    seed: 1,
  },
  'a node repeats the grant to whoever asks': { scenario: 'nominal', world: 'redlock3', seed: 1 },
  'a node brings back what is over': {
    scenario: 'nominal',
    world: 'redlock3',
    seed: 3,
    as: 'extendResurrectOnRedlock',
  },
  'a cancel takes a counter back': {
    scenario: 'hunt',
    world: 'redlock3',
    seed: 1,
    as: 'counterRollback',
  },
  'a cancel on a node leaves no tombstone': {
    scenario: 'lossless',
    world: 'redlock3',
    seed: 1,
    as: 'noTombstoneOnRedlock',
  },
  'a cancel on a node leaves a tombstone only where there was nothing to delete': {
    scenario: 'lossless',
    world: 'redlock3',
    seed: 5,
    as: 'tombOnlyIfMissingOnRedlock',
  },
}
