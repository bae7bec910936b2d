/**
 * The checker of the arm in which both sides ask: the minority is refused, in its wait, while the name
 * is nobody's; the majority is granted it; and when the partition is over the minority is, too.
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { byRound, failureIn } from '../watchdog/rounds.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const WAIT_MS = 1_500
const LATE_MS = 250

interface Judged {
  readonly isMinorityGranted: boolean
  readonly isMajorityGranted: boolean
  readonly isLate: boolean
}

export function checkAsking({ entries }: TrialRecord): ArmFindings {
  const problems: string[] = []
  const judged: Judged[] = []
  for (const [round, group] of byRound(entries)) {
    const one = judge(group)
    if (typeof one === 'string') problems.push(`round ${round}: ${one}`)
    else judged.push(one)
  }
  const isTrue = ({ isMinorityGranted, isMajorityGranted, isLate }: Judged): boolean =>
    !isMinorityGranted && isMajorityGranted && !isLate
  return {
    rounds: judged.length,
    roundsTrue: judged.filter(isTrue).length,
    redrawn: 0,
    metrics: {
      minorityGranted: judged.filter(({ isMinorityGranted }) => isMinorityGranted).length,
      majorityGranted: judged.filter(({ isMajorityGranted }) => isMajorityGranted).length,
    },
    timings: {},
    problems,
    breaches: [],
  }
}

/** A text: why nothing can be said of this round. */
function judge(entries: readonly Entry[]): Judged | string {
  const failure = failureIn(entries)
  if (failure !== null) return failure
  const leak = leakIn(entries)
  if (leak !== null) return leak
  const [before, cut, minority, majority, mended, after] = [
    ...['before', 'cut', 'minority', 'majority', 'mend', 'after'],
  ].map((name) => only(entries, name))
  if (!before || !cut || !minority || !majority || !mended || !after) return 'it is not complete'
  const inOrder = [before, cut, minority, majority, mended, after]
  const isOutOfOrder = inOrder.some((entry, at) => {
    const previous = inOrder[at - 1]
    return previous !== undefined && entry.calledAtUs < previous.answeredAtUs
  })
  if (isOutOfOrder) return 'its steps were not one after the other'
  // Whoever is refused without a partition as well says nothing about it.
  if (before.answer !== 'granted') return `refused before the partition: ${before.detail}`
  if (after.answer !== 'granted') return `refused when the partition was over: ${after.detail}`
  const lastedMs = (minority.answeredAtUs - minority.calledAtUs) / 1_000
  return {
    isMinorityGranted: minority.answer === 'granted',
    isMajorityGranted: majority.answer === 'granted',
    isLate: lastedMs > WAIT_MS + LATE_MS + (minority.value ?? 0),
  }
}

/**
 * Why the partition was none: of etcd the member that is cut off serves its client and has heard of no
 * leader, when there is one beyond it.
 */
export function leakIn(entries: readonly Entry[]): string | null {
  const isEtcd = entries[0]?.arm.startsWith('etcd') ?? false
  const words = entries.filter(({ op }) => op === 'alone').map(({ answer }) => answer)
  if (!isEtcd || (words.length === 1 && words[0] === 'alone')) return null
  return `the member that was cut off said: ${words.join(', ') || 'nothing'}`
}

function only(entries: readonly Entry[], op: string): Entry | null {
  const found = entries.filter((entry) => entry.op === op)
  return found.length === 1 ? (found[0] ?? null) : null
}
