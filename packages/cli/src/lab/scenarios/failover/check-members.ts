/**
 * The checker of the arms of `failover` in which a member of etcd fails under a leader that works: whether
 * whoever led was told before anybody else led, whether somebody wrote again, and how long nobody did.
 *
 * What the processes believe of their terms is taken for what it is: the moments at which they were told. Who
 * was accepted, and in which order, is the store's own word.
 *
 * A member that was stopped may end sessions when it wakes up that another one has kept alive meanwhile
 * (etcd-io/etcd#15247). Nobody can be told of that before: it is counted, and what decides then is the guard.
 */
import { hundredths, quantile } from '../../bars.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import { type Row, storeBreaches, storeProblems } from './check-store.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const FAULTS = { killed: 'kill', stopped: 'stop' } as const
const ARM = /, its leader (killed|stopped), ttl \d+ s$/

/** Whoever works writes every few milliseconds; with every core taken it may take longer. */
const AT_WORK_MS_MAX = 1_000

export function isMemberFault(armName: string): boolean {
  return ARM.test(armName)
}

interface Judged {
  /** The longest time without an accepted write, from the last one before the fault. */
  readonly pauseMs: number
  /** From the fault until etcd took a write of the lab. */
  readonly storedMs: number
  readonly isKept: boolean
  readonly isToldInTime: boolean
  /** How many others led after the member was back whose predecessors had not been told before. */
  readonly toldLate: number
  readonly writesAgain: boolean
}

export function checkMemberFaults({ arm, rounds, entries, finals }: TrialRecord): ArmFindings {
  const kind = ARM.exec(arm.name)?.[1] as keyof typeof FAULTS
  const rows = Array.isArray(finals) ? (finals as readonly Row[]) : []
  const problems = [...failures(entries), ...storeProblems(entries, finals)]
  const judged: Judged[] = []
  for (let round = 0; round < rounds; round++) {
    const one = judge(entries, round, FAULTS[kind])
    if (typeof one === 'string') problems.push(`round ${round}: ${one}`)
    else judged.push(one)
  }
  const [pauses, stored] = [judged.map((one) => one.pauseMs), judged.map((one) => one.storedMs)]
  const sum = (of: (one: Judged) => number): number =>
    judged.reduce((total, one) => total + of(one), 0)
  const isTrue = ({ isToldInTime, writesAgain, toldLate }: Judged): boolean =>
    isToldInTime && writesAgain && (kind === 'stopped' || toldLate === 0)
  return {
    rounds: judged.length,
    roundsTrue: judged.filter(isTrue).length,
    redrawn: 0,
    metrics: {
      [`${kind}P50Ms`]: hundredths(quantile(pauses, 0.5)),
      [`${kind}MaxMs`]: hundredths(Math.max(0, ...pauses)),
      storedP50Ms: hundredths(quantile(stored, 0.5)),
      storedMaxMs: hundredths(Math.max(0, ...stored)),
      keptTerms: sum(({ isKept }) => Number(isKept)),
      toldLate: sum(({ toldLate }) => toldLate),
    },
    timings: {},
    problems,
    breaches: arm.protected ? storeBreaches(rows) : [],
  }
}

/** The lab's own entries of one round, in their order. */
interface Story {
  readonly struck: Entry
  readonly stored: Entry
  readonly back: Entry
  readonly end: Entry
}

/** A text: why nothing can be said of this round. */
function storyOf(entries: readonly Entry[], round: number, fault: string): Story | string {
  const find = (op: string): Entry | undefined =>
    entries.find((entry) => entry.process === 'lab' && entry.op === op && entry.round === round)
  const [struck, led, stored, back, end] = [fault, 'led', 'stored', 'back', 'round'].map(find)
  if (!struck || !led || !stored || !back || !end) return 'it is not complete'
  const inOrder = [struck, led, stored, back, end].every(
    ({ answeredAtUs }, index, all) => answeredAtUs >= (all[index - 1]?.answeredAtUs ?? 0),
  )
  if (!inOrder) return 'its events are not in their order'
  if (led.detail === struck.detail || led.detail === undefined) return 'no other member led'
  return { struck, stored, back, end }
}

/** A text: why nothing can be said of this round. */
function judge(entries: readonly Entry[], round: number, fault: string): Judged | string {
  const story = storyOf(entries, round, fault)
  if (typeof story === 'string') return story
  const { struck, stored, back, end } = story
  const accepted = entries
    .filter(({ op, answer }) => op === 'write' && answer === 'accepted')
    .sort((a, b) => a.answeredAtUs - b.answeredAtUs)
  const before = accepted.findLast(({ answeredAtUs }) => answeredAtUs <= struck.calledAtUs)
  if (!before || msBetween(before, struck) > AT_WORK_MS_MAX) return 'nobody was at work'
  const after = accepted.filter(within(struck.calledAtUs, end.answeredAtUs))
  const pauses = [...after, end].map((entry, index) => msBetween(after[index - 1] ?? before, entry))
  const elected = entries.filter(({ op }) => op === 'elected')
  const missing = [before, ...after].find(
    ({ token }) => !elected.some((one) => one.token === token),
  )
  if (missing) return `nobody was elected to term ${missing.token}`
  const next = storyOf(entries, round + 1, fault)
  const untilUs = typeof next === 'string' ? end.answeredAtUs : next.struck.calledAtUs
  const late = lateNotices(entries)
  return {
    pauseMs: Math.max(...pauses),
    storedMs: (stored.answeredAtUs - struck.calledAtUs) / 1_000,
    isKept: !elected.some(within(struck.calledAtUs, untilUs)),
    isToldInTime: !late.some(within(struck.calledAtUs, back.calledAtUs)),
    toldLate: late.filter(within(back.calledAtUs, untilUs)).filter(({ op }) => op === 'elected')
      .length,
    writesAgain: after.some(({ calledAtUs }) => calledAtUs > back.answeredAtUs),
  }
}

function msBetween(first: Entry, second: Entry): number {
  return (second.answeredAtUs - first.answeredAtUs) / 1_000
}

function within(fromUs: number, untilUs: number): (entry: Entry) => boolean {
  return ({ answeredAtUs }) => answeredAtUs > fromUs && answeredAtUs <= untilUs
}

/** Each that was elected before its predecessor was told, and each write of one whom the guard knew to be over. */
function lateNotices(entries: readonly Entry[]): Entry[] {
  const elected = entries
    .filter(({ op }) => op === 'elected')
    .sort((a, b) => a.calledAtUs - b.calledAtUs)
  const tooEarly = elected.filter((one, index) => {
    const predecessor = elected[index - 1]
    if (predecessor === undefined) return false
    const told = entries.find(({ op, token }) => op === 'told' && token === predecessor.token)
    return told === undefined || told.calledAtUs > one.calledAtUs
  })
  return [...tooEarly, ...entries.filter(({ answer }) => answer === 'STALE_TOKEN')]
}

const TOLD = ['accepted', 'LEASE_LOST', 'STALE_TOKEN']

/** Whoever wrote was accepted or refused; what came to nothing says nothing. */
function failures(entries: readonly Entry[]): string[] {
  return entries
    .filter(({ op, answer }) => (op === 'write' ? !TOLD.includes(answer) : answer === 'failed'))
    .map(({ op, process, answer, detail = '' }) => `${op} of ${process}: ${answer} ${detail}`)
}
