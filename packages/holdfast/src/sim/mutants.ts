/**
 * Bugs that the simulation must find, each a patch of the product's own source, or of the model of a
 * node.
 *
 * A text stands exactly once in its file, or the list is wrong. None of this is a switch in shipped
 * code: a patch is applied to a copy.
 */
import { ENGINE_MUTANTS } from './mutants/engine.ts'
import { GUARD_MUTANTS } from './mutants/guard.ts'
import type { Mutant } from './mutants/mutant.ts'
import { REDLOCK_MUTANTS } from './mutants/redlock.ts'
import { STORE_MUTANTS } from './mutants/stores.ts'

export { ELSEWHERE } from './mutants/elsewhere.ts'
export type { Elsewhere, Mutant, Patch } from './mutants/mutant.ts'
export { NODE_SIDE } from './mutants/node-side.ts'

/** Those of the client's side; those of a node's are in NODE_SIDE. */
export const MUTANTS: readonly Mutant[] = [
  ...ENGINE_MUTANTS,
  ...GUARD_MUTANTS,
  ...STORE_MUTANTS,
  ...REDLOCK_MUTANTS,
]
