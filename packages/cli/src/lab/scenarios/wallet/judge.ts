/**
 * What the checkers of all scenarios with wallets conclude: which updates were lost, whether every
 * read showed what stood there, and whether the lock was ever granted to two.
 */
import type { Performance } from '../../checker.ts'
import type { Entry } from '../../history.ts'
import type { AppliedWrite } from './log.ts'
import type { WalletState } from './stores.ts'
import { type Expectation, readStory, type Story } from './story.ts'

/** B has done everything before A's pause is over, and its write was applied. */
export function isDoneInPause(entries: readonly Entry[]): boolean {
  const pause = entries.find(({ op }) => op === 'pause')
  const ofB = entries.filter(({ process }) => process === 'B')
  return (
    pause !== undefined &&
    ofB.some(({ op, answer }) => op === 'write' && answer === 'applied') &&
    ofB.every(({ answeredAtUs }) => answeredAtUs <= pause.answeredAtUs)
  )
}

/** One performance with all that the workers, the store's log and the balances say of it. */
export interface Judged {
  readonly performance: Performance
  readonly story: Story
  /** Writes over a balance that is not the one that they were computed from. */
  readonly lostUpdates: number
  /** By how much the balance has risen. */
  readonly gain: number
  readonly problems: readonly string[]
}

/**
 * @param writes What took effect in this performance, in the store's order.
 * @param standing The balance before it.
 */
export function judge(
  performance: Performance,
  writes: readonly AppliedWrite[],
  standing: number,
  expected: Expectation,
): Judged {
  const story = readStory(performance, expected)
  const end = writes.at(-1)?.row.newBalance ?? standing
  return {
    performance,
    story,
    lostUpdates: writes.filter(({ entry, row }) => entry.basis !== row.oldBalance).length,
    gain: end - standing,
    problems: [...story.problems, ...readProblems(performance, writes, standing)],
  }
}

/**
 * A read must show a balance that stood there at some moment between its call and its answer. One
 * that was cut off with its transaction shows none.
 */
function readProblems(
  { round, entries }: Performance,
  writes: readonly AppliedWrite[],
  standing: number,
): string[] {
  const problems: string[] = []
  const states = [standing, ...writes.map(({ row }) => row.newBalance)]
  for (const read of entries.filter(({ op, answer }) => op === 'read' && answer === 'read')) {
    const first = writes.findLastIndex(({ entry }) => entry.answeredAtUs <= read.calledAtUs) + 1
    const last = writes.findLastIndex(({ entry }) => entry.calledAtUs <= read.answeredAtUs) + 1
    if (!states.slice(first, last + 1).includes(read.value ?? Number.NaN)) {
      problems.push(`round ${round}: ${read.process} read ${read.value}, which did not stand there`)
    }
  }
  return problems
}

/**
 * Tokens rise from grant to grant, and nobody is granted what another still holds: an entry cannot
 * have run out sooner than one TTL after its holder asked for it.
 */
export function lockProblems(
  entries: readonly Entry[],
  ttlMsOf: (process: string) => number,
): string[] {
  const problems: string[] = []
  // A release may have taken effect as soon as it was called; a grant is known at its answer.
  const timeOf = ({ op, calledAtUs, answeredAtUs }: Entry): number =>
    op === 'release' ? calledAtUs : answeredAtUs
  const steps = entries
    .filter(({ op, answer }) => (op === 'acquire' && answer === 'granted') || op === 'release')
    .sort((a, b) => timeOf(a) - timeOf(b))
  let latest: Entry | null = null
  let isReleased = true
  for (const step of steps) {
    if (step.op === 'release') {
      if (step.process === latest?.process) isReleased = true
      continue
    }
    const what = `round ${step.round}: ${step.process} was granted`
    if (latest !== null && BigInt(step.token ?? 0) <= BigInt(latest.token ?? 0)) {
      problems.push(`${what} token ${step.token} after ${latest.token}`)
    }
    if (latest !== null && !isReleased) {
      const ttlUs = ttlMsOf(latest.process) * 1_000
      if (step.answeredAtUs < latest.calledAtUs + ttlUs) {
        problems.push(`${what} a lock that ${latest.process} still held`)
      }
    }
    latest = step
    isReleased = false
  }
  return problems
}

export function sumOf<T>(items: readonly T[], of: (item: T) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0)
}

export function isWalletState(state: unknown): state is WalletState {
  return typeof state === 'object' && state !== null && 'balance' in state && 'log' in state
}
