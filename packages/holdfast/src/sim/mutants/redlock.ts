/** Bugs of the Redlock backend on the client's side: votes, renewal, repair, ends, and admission. */
import { type Mutant, mutant } from './mutant.ts'

const ATTEMPT = 'backends/redlock/attempt.ts'
const RENEWAL = 'backends/redlock/renewal.ts'
const ENDING = 'backends/redlock/ending.ts'
const TABLE = 'backends/redlock/admission-table.ts'
const GRANT_LIFE = 'held.untilMs(this.voters.quorum, token)'
const OF_ANY_TOKEN = 'held.untilMs(this.voters.quorum)'
const REPAIR_ONLY =
  "if (this.#held.phase !== 'held' || this.count('yes') < this.voters.quorum) return"

const VOTING: readonly Mutant[] = [
  // The largest token of the first quorum, which nobody else has recorded.
  mutant(
    'noRaise',
    { scenario: 'hunt', world: 'redlock3', seed: 178 },
    [
      ATTEMPT,
      'if (token !== null && agreeing >= quorum) return this.#grant(token)',
      'if (token !== null && agreeing > 0 && this.#ownedCount() >= quorum)\n      return this.#grant(this.#held.highest())',
    ],
    [ATTEMPT, GRANT_LIFE, OF_ANY_TOKEN],
  ),
  // Both rounds, and then the largest token that was heard instead of the agreed one.
  mutant(
    'tokenIsMax',
    { scenario: 'wallback', world: 'redlock3', seed: 8 },
    [
      ATTEMPT,
      'if (token !== null && agreeing >= quorum) return this.#grant(token)',
      'if (token !== null && agreeing >= quorum) return this.#grant(this.#held.highest())',
    ],
    [ATTEMPT, GRANT_LIFE, OF_ANY_TOKEN],
  ),
  // Half of the nodes, rounded down: one of three.
  mutant('quorumHalf', { scenario: 'nominal', world: 'redlock3', seed: 1 }, [
    'backends/redlock/marker.ts',
    'return Math.floor(nodeCount / 2) + 1',
    'return Math.floor(nodeCount / 2)',
  ]),
  // The whole TTL counts from the answer that completed the quorum.
  mutant(
    'lateStartOnRedlock',
    { scenario: 'nominal', world: 'redlock5', seed: 35 },
    [ATTEMPT, 'const { sentAtMs } = held\n', 'const sentAtMs = this.voters.seams().nowMs()\n'],
    [
      ATTEMPT,
      'const lifeMs = Math.min(ttlMs, untilMs - sentAtMs)',
      'const lifeMs = Math.max(ttlMs, untilMs - sentAtMs)',
    ],
  ),
  mutant('noncePerClientOnRedlock', { scenario: 'nominal', world: 'redlock3', seed: 1 }, [
    'lock/attempt.ts',
    'owner: context.seams.nonce(),',
    'owner: context.waiter,',
  ]),
]

const HOLDING: readonly Mutant[] = [
  // One node that extends is enough, and its life is that of the lease.
  mutant(
    'partialExtend',
    { scenario: 'nominal', world: 'redlock3', seed: 14 },
    [RENEWAL, "if (this.count('yes') >= quorum) {", "if (this.count('yes') >= 1) {"],
    [
      RENEWAL,
      'const untilMs = this.#held.untilMs(this.voters.quorum)',
      'const untilMs = this.#held.untilMs(1)',
    ],
  ),
  mutant(
    'repairAfterRelease',
    { scenario: 'lossless', world: 'redlock3', seed: 5 },
    [RENEWAL, REPAIR_ONLY, "if (this.count('yes') < this.voters.quorum) return"],
    [RENEWAL, "if (this.#held.phase === 'over') this.#ends.undoLate(this.#held, node)\n", ''],
  ),
]

const ENDING_MUTANTS: readonly Mutant[] = [
  // A node whose answer is missing is not told.
  mutant(
    'releaseGrantedOnly',
    { scenario: 'lossless', world: 'redlock3', seed: 1 },
    [ENDING, 'if (!share.mayHold) return null', 'if (share.token === null) return null'],
    [ENDING, 'if (share.unanswered > 0) {', 'if (share.unanswered > 0 && share.token !== null) {'],
  ),
  mutant('lateOrphanOnRedlock', { scenario: 'lossless', world: 'redlock3', seed: 10 }, [
    'lock/attempt.ts',
    'this.#context.undo.cancel(lockName, owner, ttlMs)',
    'if (ttlMs < 0) this.#context.undo.cancel(lockName, owner, ttlMs)',
  ]),
  // What a node did not answer is not told to it again.
  mutant('cancelNotOwed', { scenario: 'lossless', world: 'redlock5', seed: 32 }, [
    'backends/redlock/node-port.ts',
    'if (request.owedKey === null || this.#isClosed) return',
    "if (request.owedKey !== '' || this.#isClosed) return",
  ]),
]

const ADMISSION: readonly Mutant[] = [
  mutant('admitWithoutWait', { scenario: 'blackout', world: 'redlock3', seed: 575 }, [
    TABLE,
    'return maxTtlMs * (1 + DRIFT_SHARE) + MARGIN_MS',
    'return 0 * maxTtlMs * (1 + DRIFT_SHARE) + 0 * MARGIN_MS',
  ]),
]

export const REDLOCK_MUTANTS: readonly Mutant[] = [
  ...VOTING,
  ...HOLDING,
  ...ENDING_MUTANTS,
  ...ADMISSION,
]
