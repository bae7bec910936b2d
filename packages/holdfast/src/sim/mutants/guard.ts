/** Bugs of the guard, and of those who use it. The SQL twins fall to the suite of the guards. */
import { type Mutant, mutant } from './mutant.ts'

const CLAIMING = 'guards/memory/claiming.ts'
const GUARD = 'guards/memory/guard.ts'
/** In the simulation, `op` counts the calls of all processes in the order in which they were made. */
const ORDER = "Buffer.from(op, 'base64url').readUInt32BE(4)"
const ROW_ORDER = "Buffer.from(row.op, 'base64url').readUInt32BE(4)"

export const GUARD_MUTANTS: readonly Mutant[] = [
  mutant('guardTakesStale', { scenario: 'hunt', world: 'redis', seed: 2 }, [
    CLAIMING,
    '(row.token < token ||',
    '(row.token !== token ||',
  ]),
  // The other way round: the next holder is refused, and the late one writes on.
  mutant('guardComparesBackwards', { scenario: 'nominal', world: 'redis', seed: 1 }, [
    CLAIMING,
    '(row.token < token ||',
    '(row.token > token ||',
  ]),
  // The store of the data asks for no token at all.
  mutant('noGuard', { scenario: 'hunt', world: 'redis', seed: 2 }, [
    GUARD,
    'if (claimOn(tx, call).repeat) throw repeated()',
    '',
  ]),
  // The new holder reads without raising the fence: what is written late lands under what it has read.
  mutant('noClaim', { scenario: 'latewrite', world: 'redis', seed: 1 }, [
    'sim/data.ts',
    'return this.#transact(link, lease, what, (tx) => listOf(tx.get(lease.lockName)))',
    'return link.call(what, false, async () => this.register(lease.lockName))',
  ]),
  // The number of a write is counted where it is made: of two at once, the one that overtakes wins.
  mutant('seqFromProcess', { scenario: 'latewrite', world: 'redis', seed: 43 }, [
    CLAIMING,
    'row.op !== op))',
    `${ORDER} > ${ROW_ORDER}))`,
  ]),
  // So too, and a smaller number is taken for done already.
  mutant(
    'dropLowerSeq',
    { scenario: 'latewrite', world: 'redis', seed: 43 },
    [CLAIMING, 'row.op !== op))', `${ORDER} > ${ROW_ORDER}))`],
    [
      CLAIMING,
      'const seq = repeatOrRefusal(row, claim, fenced)',
      'const isLower = row?.token === token && row.owner === owner\n  const seq = isLower ? row.seq : repeatOrRefusal(row, claim, fenced)',
    ],
    [
      GUARD,
      'if (claimOn(tx, call).repeat) throw repeated()',
      'if (claimOn(tx, call).repeat) return undefined as T',
    ],
  ),
]
