/** Bugs of backends, on the client's side. */
import { type Mutant, mutant } from './mutant.ts'

const MEMORY = 'backends/memory/memory.ts'
const REDIS = 'backends/redis/redis-backend.ts'
const ADMISSION = 'backends/redis/admission.ts'

const MEMORY_MUTANTS: readonly Mutant[] = [
  mutant('memoryBareDel', { scenario: 'nominal', world: 'memory', seed: 2 }, [
    MEMORY,
    'return entry?.owner === owner && entry.fencingToken === fencingToken ? entry : undefined',
    'return owner && fencingToken ? entry : undefined',
  ]),
  mutant('cancelOfAnyone', { scenario: 'nominal', world: 'memory', seed: 1 }, [
    MEMORY,
    'if (this.#entries.at(lockName, nowMs)?.owner === owner) this.#free(lockName)',
    'this.#free(lockName)',
  ]),
  // A hand-over that comes late takes the name from whoever has it by then.
  mutant('handOverOfAnyone', { scenario: 'nominal', world: 'memory', seed: 1 }, [
    MEMORY,
    'if (!entry || !this.#own(grant, nowMs)) return',
    'if (!entry) return',
  ]),
  // The store says that it renewed, and did not.
  mutant('renewalIsPretended', { scenario: 'nominal', world: 'memory', seed: 1 }, [
    MEMORY,
    'this.#entries.renew(entry, nowMs + ttlMs)',
    '',
  ]),
  mutant('handOverKeepsToken', { scenario: 'nominal', world: 'memory', seed: 1 }, [
    MEMORY,
    '...this.#entryOf(next, nowMs + next.ttlMs),',
    '...this.#entryOf(next, nowMs + next.ttlMs), fencingToken: entry.fencingToken,',
  ]),
  // A clock that is set back repeats tokens, or makes them fall.
  mutant('tokenIsWallClock', { scenario: 'hunt', world: 'memory', seed: 3 }, [
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
  // A server that came back empty grants at once.
  mutant('redisAmnesiaNaive', { scenario: 'amnesia', world: 'redis', seed: 3 }, [
    ADMISSION,
    "if (onEmpty === 'fresh') return scripts",
    "if (onEmpty === 'fresh' || onEmpty === 'wait') return scripts",
  ]),
  mutant('redisAdmitNoWait', { scenario: 'amnesia', world: 'redis', seed: 10 }, [
    ADMISSION,
    'if (restMs > 0) throw notYet(restMs)',
    'if (restMs > waitMs) throw notYet(restMs)',
  ]),
  // It waits on for whatever marker there is, from the first that it ever read.
  mutant('redisAdmitOnOldWait', { scenario: 'amnesia', world: 'redis', seed: 6 }, [
    ADMISSION,
    'if (this.#noted.inc !== inc) this.#noted',
    "if (this.#noted.inc === '') this.#noted",
  ]),
]

export const STORE_MUTANTS: readonly Mutant[] = [...MEMORY_MUTANTS, ...REDIS_MUTANTS]
