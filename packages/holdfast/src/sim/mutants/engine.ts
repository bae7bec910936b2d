/** Bugs of the engine: when a lease begins, ends, and is told. */
import { type Mutant, mutant } from './mutant.ts'

export const ENGINE_MUTANTS: readonly Mutant[] = [
  // Validity counts from the answer, so a slow answer makes a lease outlive its entry.
  mutant('lateStart', { scenario: 'nominal', world: 'redis', seed: 5 }, [
    'lock/attempt.ts',
    'const base = { nowMs: grant.sentAtMs, bootMs: from.bootMs + (grant.sentAtMs - from.nowMs) }',
    'const base = now',
  ]),
  mutant('extendLateStart', { scenario: 'nominal', world: 'memory', seed: 211 }, [
    'lock/lease.ts',
    'const base = { nowMs: answer.sentAtMs, bootMs }',
    'const base = instant(this.#context.seams)',
  ]),
  // An answer that comes after the deadline brings the lease back.
  mutant('lostNotTerminal', { scenario: 'clocks', world: 'redis', seed: 55 }, [
    'lock/lease.ts',
    "if (this.remainingMs() === 0) return\n    if (answer.kind === 'lost')",
    "if (this.#state !== 'held') return\n    if (answer.kind === 'lost')",
  ]),
  mutant('sleepIsIgnored', { scenario: 'nominal', world: 'redis', seed: 5 }, [
    'core/elapsed.ts',
    'return boot - monotonic <= SUSPEND_SEEN_MS ? monotonic : boot + BOOT_GRAIN_MS',
    'return boot > 0 ? monotonic : monotonic',
  ]),
  // The machine slept while the request was on its way.
  mutant('grantForgetsSleep', { scenario: 'nominal', world: 'redis', seed: 5 }, [
    'lock/attempt.ts',
    'const base = { nowMs: grant.sentAtMs, bootMs: from.bootMs + (grant.sentAtMs - from.nowMs) }',
    'const base = { nowMs: grant.sentAtMs, bootMs: now.bootMs }',
  ]),
  // What validity must give up for clocks and for stopping is added to it.
  mutant('marginIsAdded', { scenario: 'nominal', world: 'redis', seed: 5 }, [
    'core/validity.ts',
    'ttlMs - driftAllowanceMs(ttlMs) - marginMs(ttlMs)',
    'ttlMs + driftAllowanceMs(ttlMs) + marginMs(ttlMs)',
  ]),
  // The whole TTL counts, and from the moment of success.
  mutant(
    'noDeduct',
    { scenario: 'nominal', world: 'redis', seed: 5 },
    ['core/validity.ts', 'ttlMs - driftAllowanceMs(ttlMs) - marginMs(ttlMs)', 'ttlMs'],
    [
      'lock/attempt.ts',
      'const base = { nowMs: grant.sentAtMs, bootMs: from.bootMs + (grant.sentAtMs - from.nowMs) }',
      'const base = now',
    ],
  ),
  // Elapsed time is read from a clock that people and NTP set back.
  mutant(
    'wallClock',
    { scenario: 'wallback', world: 'redis', seed: 1 },
    [
      'core/elapsed.ts',
      'return { nowMs, bootMs: seams.bootMs(nowMs) }',
      'return { nowMs, bootMs: seams.wallMs() }',
    ],
    [
      'core/elapsed.ts',
      'return boot - monotonic <= SUSPEND_SEEN_MS ? monotonic : boot + BOOT_GRAIN_MS',
      'return monotonic === boot ? monotonic : boot',
    ],
  ),
  mutant('lossIsNotTold', { scenario: 'nominal', world: 'redis', seed: 1 }, [
    'lock/lease.ts',
    "this.#controller?.abort(this.#lossError())\n    this.#context.emitter.emit('lost', { lockName",
    "this.#context.emitter.emit('lost', { lockName",
  ]),
  // The timer of the deadline is not armed again after a renewal moved it.
  mutant('deadlineFiresOnce', { scenario: 'nominal', world: 'redis', seed: 1 }, [
    'lock/watchdog.ts',
    'if (leftMs > 0) this.#armDeadline(leftMs, now.nowMs)',
    '',
  ]),
  // One owner for all attempts of a process: the second contender is answered by the first's grant.
  mutant('noncePerClient', { scenario: 'nominal', world: 'redis', seed: 1 }, [
    'lock/attempt.ts',
    'owner: context.seams.nonce(),',
    'owner: context.waiter,',
  ]),
  // An attempt that was given up is not undone.
  mutant('lateOrphan', { scenario: 'lossless', world: 'redis', seed: 1 }, [
    'lock/attempt.ts',
    'this.#context.undo.cancel(lockName, owner, ttlMs)',
    'if (ttlMs < 0) this.#context.undo.cancel(lockName, owner, ttlMs)',
  ]),
  // Whoever waits behind a holder that has died is never asked for again.
  mutant('headNeverAsksAgain', { scenario: 'calm', world: 'redis', seed: 23 }, [
    'lock/wait.ts',
    'line.askAt(line.missedWake ? seams.nowMs() : seams.nowMs() + this.#pollMs(answer))',
    'line.askAt(seams.nowMs() + 60_000 + this.#pollMs(answer))',
  ]),
]
