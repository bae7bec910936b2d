/** Bugs of the list that no schedule of the simulation can find, and what finds them. */
import type { Elsewhere } from './mutant.ts'

export const ELSEWHERE: readonly Elsewhere[] = [
  {
    // Of an unknown COMMIT; the guard of the simulation commits in one step with its answer.
    name: 'retryOnOtherOp',
    caught: 'conformance',
    where: 'packages/holdfast/test/conformance/postgres-guard.test.ts',
  },
]
