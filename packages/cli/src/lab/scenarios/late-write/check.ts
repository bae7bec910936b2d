/**
 * The checker of `late-write`. A worker's "applied" is an acknowledgement; whether the update is
 * still in the balance is the store's word. Its log must tell the same.
 */
import { nextGrantTimings } from '../../checker.ts'
import type { Entry } from '../../history.ts'
import type { ArmFindings, ArmRecord } from '../../scenario.ts'
import { HOLD_MS } from '../hold.ts'
import { sumOf } from '../wallet/judge.ts'
import { type JudgedWallet, judgeOwnWallets } from '../wallet/judge-own.ts'
import type { Expectation } from '../wallet/story.ts'

const ALL = { takesLock: true, reads: true, pauses: true, changes: { A: 1, B: 1 } } as const

const EXPECTED: Readonly<Record<string, Expectation>> = {
  'write-only guard': { ...ALL, claims: false },
  'claim and read together': { ...ALL, claims: true },
  'claim, then read': { ...ALL, claims: true },
  'guard.update after a read': { ...ALL, claims: false },
  'guard.update, read, guard.update': { ...ALL, claims: true },
}

/** A's write after its pause is asked for and answered between B's read and B's write. */
export function isLateAsPlanned(entries: readonly Entry[]): boolean {
  const pause = entries.find(({ op }) => op === 'pause')
  const late = entries.find(
    ({ op, process, calledAtUs }) =>
      op === 'write' && process === 'A' && calledAtUs >= (pause?.answeredAtUs ?? 0),
  )
  const ofB = entries.filter(({ process }) => process === 'B')
  const read = ofB.findLast(({ op, answer }) => op === 'read' && answer === 'read')
  const write = ofB.find(({ op, answer }) => op === 'write' && answer === 'applied')
  return (
    pause !== undefined &&
    late !== undefined &&
    read !== undefined &&
    write !== undefined &&
    read.answeredAtUs <= late.calledAtUs &&
    late.answeredAtUs <= write.calledAtUs
  )
}

export function checkLateWrite(record: ArmRecord): ArmFindings {
  const expected = EXPECTED[record.arm.name]
  if (expected === undefined) throw new Error(`nothing is expected of arm ${record.arm.name}`)
  const { judged, counted, redrawn, problems, breaches } = judgeOwnWallets(record, {
    expected,
    openedWith: 0,
    ttlMsOf: (process) => (process === 'A' ? record.fault.ttlMs : HOLD_MS),
    isAsPlanned: isLateAsPlanned,
  })
  const lostAnyway = judged
    .filter(({ performance, lostUpdates }) => !performance.isAsPlanned && lostUpdates > 0)
    .map(({ performance: { round } }) => `round ${round}, drawn again, lost an update`)
  return {
    rounds: counted.length,
    roundsTrue: counted.filter((one) => isClaimTrue(one, record.arm.protected)).length,
    redrawn,
    metrics: {
      acknowledged: sumOf(counted, acknowledgedIn),
      lost: sumOf(counted, lostIn),
      refusedWrites: sumOf(counted, refusedIn),
    },
    timings: nextGrantTimings(counted.map(({ performance }) => performance)),
    problems,
    breaches: record.arm.protected ? [...breaches, ...lostAnyway] : breaches,
  }
}

function acknowledgedIn({ performance }: JudgedWallet): number {
  return performance.entries.filter(({ op, answer }) => op === 'write' && answer === 'applied')
    .length
}

/** Each update adds one: what was acknowledged and is not in the balance is lost. */
function lostIn(one: JudgedWallet): number {
  return Math.max(0, acknowledgedIn(one) - one.finalBalance)
}

function refusedIn({ performance }: JudgedWallet): number {
  return performance.entries.filter(({ op, answer }) => op === 'write' && answer === 'refused')
    .length
}

function isClaimTrue(one: JudgedWallet, isProtected: boolean): boolean {
  const { story, lostUpdates } = one
  if (acknowledgedIn(one) !== 2 || lostIn(one) !== lostUpdates) return false
  if (isProtected) return story.lateWrite?.answer === 'refused' && lostUpdates === 0
  return story.lateWrite?.answer === 'applied' && refusedIn(one) === 0 && lostUpdates === 1
}
