/**
 * The checker of the blocked event loop. It expects that the holder is told too late, and that the
 * late knowledge does no harm: the first statement after the block throws, and the store refuses
 * the write.
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import type { Writes } from './blocked-loop.ts'
import { byRound, failureIn, grantedFigures, grantedIn, isOnEtcd } from './rounds.ts'

/** Written down here, so that the checker does not ask those who play the story. */
const TTL_MS = 1_000
/** Of what the store grants. */
const BLOCK_TTLS = 1.5
/** In the store, in the end: the holder's write before the block, and the next one's. */
const WRITES = 'early, next'

interface Judged {
  readonly marginMs: number
  readonly isHarmless: boolean
  readonly isRefused: boolean
}

export function checkBlocked({ arm, entries, finals }: TrialRecord): ArmFindings {
  const problems: string[] = []
  const breaches: string[] = []
  const judged: Judged[] = []
  const writes = isWrites(finals) ? finals.byRound : []
  for (const [round, group] of byRound(entries)) {
    const one = judge(group, isOnEtcd(arm.name))
    if (typeof one === 'string') {
      problems.push(`round ${round}: ${one}`)
      continue
    }
    judged.push(one)
    const written = (writes[round] ?? []).join(', ')
    if (written !== WRITES) breaches.push(`round ${round}: the store has the writes "${written}"`)
  }
  const margins = judged.map(({ marginMs }) => marginMs)
  return {
    rounds: judged.length,
    roundsTrue: judged.filter(({ isHarmless }) => isHarmless).length,
    redrawn: 0,
    metrics: {
      toldBeforeTtl: margins.filter((marginMs) => marginMs > 0).length,
      rounds: judged.length,
      ...(margins.length > 0 && { worstMarginMs: Math.round(Math.min(...margins)) }),
      refusedWrites: judged.filter(({ isRefused }) => isRefused).length,
      ...grantedFigures(entries),
    },
    timings: {},
    problems,
    breaches,
  }
}

/** A text: why nothing can be said of this round. */
function judge(entries: readonly Entry[], isEtcd: boolean): Judged | string {
  const failure = failureIn(entries)
  if (failure !== null) return failure
  const find = (process: string, name: string, detail?: string): Entry | undefined =>
    entries.find(
      (entry) =>
        entry.process === process &&
        entry.op === name &&
        (detail === undefined || entry.detail === detail),
    )
  const [acquire, block, assert, told] = ['acquire', 'block', 'assert', 'told'].map((name) =>
    find('blocked', name),
  )
  const early = find('blocked', 'write', 'early')
  const late = find('blocked', 'write', 'late')
  const taken = find('next', 'acquire')
  const next = find('next', 'write')
  if (acquire === undefined || block === undefined || assert === undefined || late === undefined) {
    return 'it is not complete'
  }
  if (early?.answer !== 'applied' || next?.answer !== 'applied') return 'a good write was refused'
  if (taken?.token === undefined || acquire.token === undefined) return 'a token is missing'
  const ttlMs = isEtcd ? grantedIn(entries, TTL_MS) : TTL_MS
  if (typeof ttlMs === 'string') return ttlMs
  const blockedMs = block.value ?? 0
  if (blockedMs < BLOCK_TTLS * ttlMs - 2) return `the loop was blocked for ${blockedMs} ms only`
  if (late.calledAtUs < next.answeredAtUs) return 'the late write was not late'
  // The store cannot have granted it before it was asked to.
  const endsAtUs = acquire.calledAtUs + ttlMs * 1_000
  const toldAtUs = told?.calledAtUs ?? late.answeredAtUs
  return {
    marginMs: (endsAtUs - toldAtUs) / 1_000,
    isRefused: late.answer === 'refused',
    isHarmless:
      assert.answer === 'LEASE_LOST' &&
      told !== undefined &&
      late.answer === 'refused' &&
      BigInt(taken.token) > BigInt(acquire.token),
  }
}

function isWrites(finals: unknown): finals is Writes {
  return typeof finals === 'object' && finals !== null && 'byRound' in finals
}
