/**
 * The bars that Holdfast sets itself, against what a run showed.
 *
 * OK: the figure is within the bar, and it would be if it were 5 % worse, or no run was outside.
 * SHORT: everything else; a figure near its bar is no proof. It is told and never fails a run.
 */
import type { Row } from './rows.ts'

/** A figure this near to its bar counts only if no run was on the other side. */
const NEAR = 0.05

export interface Bar {
  readonly group: string
  readonly client: string
  readonly what: string
  /** `<=` or `>=` and the bar. */
  readonly wanted: string
  readonly figure: number
  readonly verdict: 'OK' | 'SHORT'
  /** For example the peer that the figure is compared with; empty otherwise. */
  readonly note: string
}

type Claim = Omit<Bar, 'verdict' | 'figure'> & Side

interface Side {
  readonly isUpper: boolean
  readonly bar: number
  readonly figure: number
  /** The worst run; the figure itself where there is no spread. */
  readonly worst: number
}

export function barsOf(rows: readonly Row[]): Bar[] {
  return rows
    .filter(({ who }) => who === 'holdfast')
    .flatMap((row) => claimsOf(row, rows))
    .map(({ isUpper, bar, worst, ...shown }) => ({
      ...shown,
      verdict: verdictOf({ isUpper, bar, worst, figure: shown.figure }),
    }))
}

export function verdictOf({ isUpper, bar, figure, worst }: Side): Bar['verdict'] {
  const isWithin = (value: number): boolean => (isUpper ? value <= bar : value >= bar)
  if (!isWithin(figure)) return 'SHORT'
  const isNear = Math.abs(figure - bar) <= bar * NEAR
  return isNear && !isWithin(worst) ? 'SHORT' : 'OK'
}

function claimsOf(row: Row, rows: readonly Row[]): Claim[] {
  if (row.group === 'one-in-flight') return [...p50Claim(row), ...peerClaim(row, rows)]
  if (row.group === '64-in-flight') return [rateClaim(row, RATE_BARS_64[row.client] ?? 0)]
  if (row.group === '16-contenders') return contenderClaims(row)
  return []
}

/** As shipped, node-redis has a bar of its own: its time-outs cost both sides the same. */
const P50_BARS: Readonly<Record<string, number>> = {
  ioredis: 1.06,
  'node-redis, timeout 0': 1.06,
  'node-redis': 1.15,
}

const RATE_BARS_64: Readonly<Record<string, number>> = {
  ioredis: 2,
  'node-redis': 2.8,
  'node-redis, timeout 0': 1.5,
}

function p50Claim(row: Row): Claim[] {
  const bar = P50_BARS[row.client]
  if (bar === undefined) return []
  return [atMost(row, 'p50 of hand-written with token', bar, row.p50Ratio, row.p50RatioSpread.max)]
}

/** The nearest of them, so that one line stands for all. */
function peerClaim(row: Row, rows: readonly Row[]): Claim[] {
  const peers = rows.filter(
    ({ group, client, who, isOwnerChecked }) =>
      group === row.group &&
      client === row.client &&
      isOwnerChecked &&
      who !== 'holdfast' &&
      who !== 'hand-written',
  )
  if (peers.length === 0) return []
  const best = peers.reduce((least, peer) => (peer.p50Ratio < least.p50Ratio ? peer : least))
  const figure = row.p50Ratio / best.p50Ratio
  // The two spreads overlap unless our worst run is better than its best one.
  const worst = row.p50RatioSpread.max / best.p50RatioSpread.min
  return [{ ...atMost(row, 'p50 of the fastest peer', 1, figure, worst), note: best.who }]
}

function rateClaim(row: Row, bar: number): Claim {
  return atLeast(row, 'rate of hand-written with token', bar, row.ratio, row.ratioSpread.min)
}

function contenderClaims(row: Row): Claim[] {
  const { ratio, ratioSpread, longestWaitRounds, jain, requestsEach } = row
  const claims = [
    atLeast(row, 'rate of a worker that never waits', 0.97, ratio, ratioSpread.min),
    atMost(row, 'longest wait in rounds', 2.5, longestWaitRounds, longestWaitRounds),
  ]
  if (jain !== null) claims.push(atLeast(row, "Jain's index", 0.999, jain, jain))
  if (requestsEach !== null) {
    claims.push(atMost(row, 'requests a section', 1.05, requestsEach, requestsEach))
  }
  return claims
}

function atMost(row: Row, what: string, bar: number, figure: number, worst: number): Claim {
  return { ...claim(row, what), wanted: `<= ${bar}`, isUpper: true, bar, figure, worst }
}

function atLeast(row: Row, what: string, bar: number, figure: number, worst: number): Claim {
  return { ...claim(row, what), wanted: `>= ${bar}`, isUpper: false, bar, figure, worst }
}

function claim({ group, client }: Row, what: string) {
  return { group, client, what, note: '' }
}
