/** Bugs of backends, on the client's side. */
import { type Mutant, mutant } from './mutant.ts'

const MEMORY = 'backends/memory/memory.ts'
const REDIS = 'backends/redis/redis-backend.ts'
const ADMISSION = 'backends/redis/admission.ts'

const NOMINAL = { scenario: 'nominal', seed: 1 } as const
const HUNT = { scenario: 'hunt', seed: 1 } as const
const AMNESIA = { scenario: 'amnesia', world: 'redis', seed: 1 } as const

const MEMORY_MUTANTS: readonly Mutant[] = [
  mutant('memoryBareDel', { ...NOMINAL, world: 'memory' }, [
    MEMORY,
    'return entry?.owner === owner && entry.fencingToken === fencingToken ? entry : undefined',
    'return owner && fencingToken ? entry : undefined',
  ]),
  mutant('cancelOfAnyone', { ...NOMINAL, world: 'memory' }, [
    MEMORY,
    'if (this.#entries.at(lockName, nowMs)?.owner === owner) this.#free(lockName)',
    'this.#free(lockName)',
  ]),
  // A hand-over that comes late takes the name from whoever has it by then.
  mutant('handOverOfAnyone', { ...NOMINAL, world: 'memory' }, [
    MEMORY,
    'if (!entry || !this.#own(grant, nowMs)) return',
    'if (!entry) return',
  ]),
  // The store says that it renewed, and did not.
  mutant('renewalIsPretended', { ...NOMINAL, world: 'memory' }, [
    MEMORY,
    'this.#entries.renew(entry, nowMs + ttlMs)',
    '',
  ]),
  mutant('handOverKeepsToken', { ...NOMINAL, world: 'memory' }, [
    MEMORY,
    '...this.#entryOf(next, nowMs + next.ttlMs),',
    '...this.#entryOf(next, nowMs + next.ttlMs), fencingToken: entry.fencingToken,',
  ]),
  // A clock that is set back repeats tokens, or makes them fall.
  mutant('tokenIsWallClock', { ...HUNT, world: 'memory' }, [
    MEMORY,
    'this.#counter = next > floor ? next : floor',
    'this.#counter = floor',
  ]),
]

const REDIS_MUTANTS: readonly Mutant[] = [
  mutant('tokenClientClock', { scenario: 'wallback', world: 'redis', seed: 1 }, [
    REDIS,
    'const fencingToken = tokenOf(token)',
    'const fencingToken = token ? BigInt(Math.floor(this.#seams.wallMs() * 1000)) : null',
  ]),
  // What the store answers a second time is taken for a whole life.
  mutant('againIsAWholeLife', { ...NOMINAL, world: 'redis' }, [
    REDIS,
    'const lifeMs = Math.min(ttlMs, Number(third))',
    'const lifeMs = Math.max(ttlMs, Number(third))',
  ]),
  // I3: the time of sending is read when the answer is there.
  mutant('renewalSentLate', { ...NOMINAL, world: 'redis' }, [
    REDIS,
    "if (answer === 'renewed') return { kind: 'renewed', sentAtMs, ttlMs }",
    "if (answer === 'renewed') return { kind: 'renewed', sentAtMs: Math.max(sentAtMs, this.#seams.nowMs()), ttlMs }",
  ]),
  // "Not ours any more" is taken for an answer that is still out.
  mutant('lossIsNoAnswer', { ...HUNT, world: 'redis' }, [
    REDIS,
    "return { kind: 'lost', reason: answer as LossReason }",
    "return { kind: 'renewed', sentAtMs, ttlMs }",
  ]),
  // A server that came back empty grants at once.
  mutant('redisAmnesiaNaive', AMNESIA, [
    ADMISSION,
    "if (onEmpty === 'fresh') return scripts",
    "if (onEmpty === 'fresh' || onEmpty === 'wait') return scripts",
  ]),
  mutant('redisAdmitNoWait', AMNESIA, [
    ADMISSION,
    'if (restMs > 0) throw notYet(restMs)',
    'if (restMs > waitMs) throw notYet(restMs)',
  ]),
  // It waits on for whatever marker there is, from the first that it ever read.
  mutant('redisAdmitOnOldWait', AMNESIA, [
    ADMISSION,
    'if (this.#noted.inc !== inc) this.#noted',
    "if (this.#noted.inc === '') this.#noted",
  ]),
]

export const STORE_MUTANTS: readonly Mutant[] = [...MEMORY_MUTANTS, ...REDIS_MUTANTS]
