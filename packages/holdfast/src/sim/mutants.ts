/**
 * Bugs that the simulation must find, each a patch of the product's own source.
 *
 * `text` stands exactly once in its file, or the list is wrong. None of this is a switch in shipped
 * code: a patch is applied to a copy.
 */
import type { ScenarioName } from './scenarios.ts'

export interface Patch {
  readonly name: string
  /** Below `src`. */
  readonly file: string
  readonly text: string
  readonly replacement: string
}

export interface Mutant extends Patch {
  /** In which it shows. */
  readonly scenario: ScenarioName
}

const MEMORY = 'backends/memory/memory.ts'
const CLAIMING = 'guards/memory/claiming.ts'

export const MUTANTS: readonly Mutant[] = [
  {
    // Validity counts from the answer, so a slow answer makes a lease outlive its entry.
    name: 'grantCountsFromAnswer',
    scenario: 'nominal',
    file: 'lock/attempt.ts',
    text: 'const base = { nowMs: grant.sentAtMs, bootMs: from.bootMs + (grant.sentAtMs - from.nowMs) }',
    replacement: 'const base = now',
  },
  {
    name: 'renewalCountsFromAnswer',
    scenario: 'nominal',
    file: 'lock/lease.ts',
    text: 'const base = { nowMs: answer.sentAtMs, bootMs }',
    replacement: 'const base = instant(this.#context.seams)',
  },
  {
    // An answer that comes after the deadline brings the lease back.
    name: 'lateRenewalRevives',
    scenario: 'nominal',
    file: 'lock/lease.ts',
    text: "if (this.remainingMs() === 0) return\n    if (answer.kind === 'lost')",
    replacement: "if (this.#state !== 'held') return\n    if (answer.kind === 'lost')",
  },
  {
    name: 'sleepIsIgnored',
    scenario: 'nominal',
    file: 'core/elapsed.ts',
    text: 'return boot - monotonic <= SUSPEND_SEEN_MS ? monotonic : boot + BOOT_GRAIN_MS',
    replacement: 'return boot > 0 ? monotonic : monotonic',
  },
  {
    // The machine slept while the request was on its way.
    name: 'grantForgetsSleep',
    scenario: 'nominal',
    file: 'lock/attempt.ts',
    text: 'const base = { nowMs: grant.sentAtMs, bootMs: from.bootMs + (grant.sentAtMs - from.nowMs) }',
    replacement: 'const base = { nowMs: grant.sentAtMs, bootMs: now.bootMs }',
  },
  {
    name: 'renewalForgetsSleep',
    scenario: 'nominal',
    file: 'lock/lease.ts',
    text: 'const bootMs = from.bootMs + (answer.sentAtMs - from.nowMs)',
    replacement: 'const { bootMs } = instant(this.#context.seams)',
  },
  {
    // What validity must give up for clocks and for stopping is added to it.
    name: 'marginIsAdded',
    scenario: 'nominal',
    file: 'core/validity.ts',
    text: 'ttlMs - driftAllowanceMs(ttlMs) - marginMs(ttlMs)',
    replacement: 'ttlMs + driftAllowanceMs(ttlMs) + marginMs(ttlMs)',
  },
  {
    name: 'lossIsNotTold',
    scenario: 'nominal',
    file: 'lock/lease.ts',
    text: "this.#controller?.abort(this.#lossError())\n    this.#context.emitter.emit('lost', { lockName",
    replacement: "this.#context.emitter.emit('lost', { lockName",
  },
  {
    // The timer of the deadline is not armed again after a renewal moved it.
    name: 'deadlineFiresOnce',
    scenario: 'nominal',
    file: 'lock/watchdog.ts',
    text: 'if (leftMs > 0) this.#armDeadline(leftMs, now.nowMs)',
    replacement: '',
  },
  {
    // One owner for all attempts of a process: the second contender is answered by the first's grant.
    name: 'ownerOfProcess',
    scenario: 'nominal',
    file: 'lock/attempt.ts',
    text: 'owner: context.seams.nonce(),',
    replacement: 'owner: context.waiter,',
  },
  {
    name: 'releaseOfAnyone',
    scenario: 'nominal',
    file: MEMORY,
    text: 'return entry?.owner === owner && entry.fencingToken === fencingToken ? entry : undefined',
    replacement: 'return owner && fencingToken ? entry : undefined',
  },
  {
    name: 'cancelOfAnyone',
    scenario: 'nominal',
    file: MEMORY,
    text: 'if (this.#entries.at(lockName, nowMs)?.owner === owner) this.#free(lockName)',
    replacement: 'this.#free(lockName)',
  },
  {
    // A hand-over that comes late takes the name from whoever has it by then.
    name: 'handOverOfAnyone',
    scenario: 'nominal',
    file: MEMORY,
    text: 'if (!entry || !this.#own(grant, nowMs)) return',
    replacement: 'if (!entry) return',
  },
  {
    // The store says that it renewed, and did not.
    name: 'renewalIsPretended',
    scenario: 'nominal',
    file: MEMORY,
    text: 'this.#entries.renew(entry, nowMs + ttlMs)',
    replacement: '',
  },
  {
    name: 'handOverKeepsToken',
    scenario: 'nominal',
    file: MEMORY,
    text: '...this.#entryOf(next, nowMs + next.ttlMs),',
    replacement: '...this.#entryOf(next, nowMs + next.ttlMs), fencingToken: entry.fencingToken,',
  },
  {
    // A clock that is set back repeats tokens, or makes them fall.
    name: 'tokenIsWallClock',
    scenario: 'hunt',
    file: MEMORY,
    text: 'this.#counter = next > floor ? next : floor',
    replacement: 'this.#counter = floor',
  },
  {
    name: 'guardTakesStale',
    scenario: 'hunt',
    file: CLAIMING,
    text: '(row.token < token ||',
    replacement: '(row.token !== token ||',
  },
  {
    // The other way round: the next holder is refused, and the late one writes on.
    name: 'guardComparesBackwards',
    scenario: 'nominal',
    file: CLAIMING,
    text: '(row.token < token ||',
    replacement: '(row.token > token ||',
  },
  {
    name: 'transactionWithoutClaim',
    scenario: 'hunt',
    file: 'guards/memory/guard.ts',
    text: 'if (claimOn(tx, call).repeat) throw repeated()',
    replacement: '',
  },
]
