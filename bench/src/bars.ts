/**
 * The bars that Holdfast sets itself, against what a run showed.
 *
 * OK: the figure is within the bar, and if it is nearer than 5 %, no run was outside. ACCEPTED: it is
 * not, but within the wider bar that is accepted where the first one is hard to reach. SHORT:
 * everything else; a figure near its bar is no proof. It is told and never fails a run.
 */
import { BY_CONNECT, QUORUM_WAIT_MS } from './contestants/quorum.ts'
import { REDLOCK5 } from './contestants/quorum-peers.ts'
import type { Row } from './rows.ts'
import { median } from './statistics.ts'

/** A figure this near to its bar counts only if no run was on the other side. */
const NEAR = 0.05

export interface Bar {
  readonly group: string
  readonly client: string
  readonly what: string
  /** `<=` or `>=`, the bar, and the wider one that is accepted. */
  readonly wanted: string
  readonly figure: number
  readonly verdict: 'OK' | 'ACCEPTED' | 'SHORT'
}

/** What is claimed of one row. */
export interface Claim {
  readonly what: string
  readonly isUpper: boolean
  readonly bar: number
  readonly accepted?: number | undefined
  readonly figure: number
  /** The worst run; the figure itself where there is no spread. */
  readonly worst: number
}

export function barsOf(rows: readonly Row[]): Bar[] {
  return rows
    .filter(({ who }) => who === 'holdfast')
    .flatMap((row) => {
      const { group, client } = row
      return claimsOf(row, rows).map((claim) => ({
        ...{ group, client, what: claim.what, figure: claim.figure },
        wanted: wantedText(claim),
        verdict: verdictOf(claim),
      }))
    })
}

export function verdictOf(claim: Omit<Claim, 'what'>): Bar['verdict'] {
  const { isUpper, bar, accepted, figure, worst } = claim
  const isMet = (limit: number): boolean => {
    const isWithin = (value: number): boolean => (isUpper ? value <= limit : value >= limit)
    const isNear = Math.abs(figure - limit) <= limit * NEAR
    return isWithin(figure) && (!isNear || isWithin(worst))
  }
  if (isMet(bar)) return 'OK'
  return accepted !== undefined && isMet(accepted) ? 'ACCEPTED' : 'SHORT'
}

function wantedText({ isUpper, bar, accepted }: Claim): string {
  const text = `${isUpper ? '<=' : '>='} ${bar}`
  return accepted === undefined ? text : `${text} (${accepted})`
}

function claimsOf(row: Row, rows: readonly Row[]): Claim[] {
  switch (row.group) {
    case 'one-in-flight':
      return [...p50Claims(row), ...peerClaims(row, rows)]
    case '64-in-flight':
      return rateClaims(row)
    case '16-contenders':
      return contenderClaims(row)
    case '3-processes':
      return shareClaims(row)
    case 'transaction':
      return transactionClaims(row, rows)
    case 'sqlite':
      return fileClaims(row)
    case 'sqlite-8-processes':
      return fileCrowdClaims(row)
    case 'redlock':
      return quorumClaims(row, rows)
    default:
      return etcdClaims(row, rows)
  }
}

/** The floor is what two requests cost; nothing that is asked of a lock may cost much more. */
function etcdClaims(row: Row, rows: readonly Row[]): Claim[] {
  const { ratio, ratioSpread } = row
  switch (row.group) {
    case 'etcd':
      return [p50Claim(row, 'two hand-written Txn', 1.1)]
    case 'etcd-64-in-flight':
      return [atLeast('rate, as a multiple of two hand-written Txn', 0.9, ratio, ratioSpread.min)]
    case 'etcd-16-contenders':
      return etcdCrowdClaims(row)
    case 'etcd-waiters':
      return waiterClaims(row, rows)
    case 'election':
      return [p50Claim(row, 'one hand-written Txn', 3)]
    default:
      return []
  }
}

const HAND = 'hand-written with token'

/** As shipped, node-redis has a bar of its own: its time-outs cost both sides the same. */
const P50_BARS: Readonly<Record<string, readonly [bar: number, accepted?: number]>> = {
  ioredis: [1.06, 1.1],
  'node-redis, timeout 0': [1.06, 1.1],
  'node-redis': [1.15],
}

const RATE_BARS_64: Readonly<Record<string, number>> = {
  ioredis: 2,
  'node-redis': 2.8,
  'node-redis, timeout 0': 1.5,
}

function p50Claims(row: Row): Claim[] {
  const [bar, accepted] = P50_BARS[row.client] ?? []
  return bar === undefined ? [] : [p50Claim(row, HAND, bar, accepted)]
}

function p50Claim({ p50Ratio, p50RatioSpread }: Row, of: string, bar: number, accepted?: number) {
  return atMost(`p50, as a multiple of ${of}`, bar, p50Ratio, p50RatioSpread.max, accepted)
}

/** The fastest of them, so that one line stands for all. */
function peerClaims(row: Row, rows: readonly Row[]): Claim[] {
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
  return [atMost(`p50, as a multiple of the fastest peer (${best.who})`, 1, figure, worst)]
}

function rateClaims({ client, ratio, ratioSpread }: Row): Claim[] {
  const bar = RATE_BARS_64[client]
  if (bar === undefined) return []
  return [atLeast(`rate, as a multiple of ${HAND}`, bar, ratio, ratioSpread.min)]
}

function contenderClaims(row: Row): Claim[] {
  const { ratio, ratioSpread, longestWaitRounds, jain, requestsEach } = row
  const claims = [
    atLeast('rate, as a multiple of a worker that never waits', 0.97, ratio, ratioSpread.min),
    atMost('longest wait, in rounds', 2.5, longestWaitRounds, longestWaitRounds),
  ]
  if (jain !== null) claims.push(atLeast("Jain's index", 0.999, jain, jain))
  if (requestsEach !== null) {
    claims.push(atMost('requests of a section', 1.05, requestsEach, requestsEach))
  }
  return claims
}

/** Starved is who gets next to nothing: half of a fair share is far from it. */
function shareClaims({ smallestShare }: Row): Claim[] {
  if (smallestShare === null) return []
  return [atLeast('smallest share, of a fair one', 0.5, smallestShare, smallestShare)]
}

const PLAIN = 'a plain transaction'
/** Both are bounded by the same three time-outs. */
const BOUNDED = 'with time-outs'

function transactionClaims(row: Row, rows: readonly Row[]): Claim[] {
  const { client, variant, requestsEach } = row
  if (client === 'pg, pipeline') return [p50Claim(row, `${PLAIN} without pipeline`, 0.95)]
  // What the others come to has no bar of its own.
  if (client !== 'pg') return []
  const claims =
    variant === 'guard.update'
      ? [p50Claim(row, `${PLAIN} (column form)`, 1.04)]
      : boundedClaims(row, rows)
  if (requestsEach !== null) {
    claims.push(atMost(`round trips of ${variant}; plain: 4`, 4, requestsEach, requestsEach))
  }
  return claims
}

/** NORMAL is what one gives a token's safety for, and has no bar. */
function fileClaims(row: Row): Claim[] {
  return row.variant === 'FULL' ? [p50Claim(row, `${HAND}, FULL`, 1.2)] : []
}

function fileCrowdClaims({ variant, longestWaitRounds, jain, smallestShare }: Row): Claim[] {
  if (variant !== 'FULL' || jain === null || smallestShare === null) return []
  return [
    atMost('longest wait, in rounds', 2.5, longestWaitRounds, longestWaitRounds),
    atLeast("Jain's index", 0.99, jain, jain),
    atLeast('smallest share, of a fair one', 0.5, smallestShare, smallestShare),
  ]
}

function etcdCrowdClaims({ ratio, ratioSpread, longestWaitRounds, jain, requestsEach }: Row) {
  const claims = [
    atLeast("rate, as a multiple of the Go package's algorithm", 2, ratio, ratioSpread.min),
    atMost('longest wait, in rounds', 2.5, longestWaitRounds, longestWaitRounds),
  ]
  if (jain !== null) claims.push(atLeast("Jain's index", 0.999, jain, jain))
  if (requestsEach !== null) {
    claims.push(atMost('requests of a section', 2.1, requestsEach, requestsEach))
  }
  return claims
}

/** A hand-over costs a process what it costs it among few. */
function waiterClaims(row: Row, rows: readonly Row[]): Claim[] {
  const few = rows.find((one) => one.group === row.group && one.inFlight < row.inFlight)
  if (few === undefined) return []
  const claim = (what: string, many: number | null, one: number | null): Claim[] => {
    if (many === null || one === null) return []
    const figure = many / one
    const text = `${what}, ${row.variant}, as a multiple of ${few.variant}`
    return [atMost(text, 1.1, figure, figure)]
  }
  return [
    ...claim('requests of a hand-over', row.requestsEach, few.requestsEach),
    ...claim('events of a hand-over that a process sees', row.eventsEach, few.eventsEach),
  ]
}

/** A timer is late, on a busy machine by more. */
const LATENESS = 1.1

function quorumClaims(row: Row, rows: readonly Row[]): Claim[] {
  if (row.quorum === null) return []
  const { situation, tries, granted, longestRefusalMs } = row.quorum
  const by = row.variant === '' ? '' : ` (${row.variant})`
  const share = granted / tries
  if (situation === 'all alive') return redlock5Claims(row, rows, by)
  if (situation === 'two killed') {
    const claims = [atMost(`granted of ${tries}, ${situation}${by}`, 0, granted, granted)]
    if (longestRefusalMs === null) return claims
    const waits = longestRefusalMs / QUORUM_WAIT_MS
    const what = `longest refusal, as a multiple of the caller's wait${by}`
    return [...claims, atMost(what, LATENESS, waits, waits)]
  }
  const claims = [atLeast(`granted of ${tries}, as a share, ${situation}${by}`, 1, share, share)]
  const alive = sameOf(
    row,
    rows,
    'all alive',
    ({ who, variant, client }) =>
      [who, variant, client].join() === [row.who, row.variant, row.client].join(),
  )
  if (alive === undefined) return claims
  const ratios = row.p50MsOfRuns.map((p50Ms, run) => p50Ms / (alive.p50MsOfRuns[run] ?? 0))
  const what = `p50, as a multiple of all alive, ${situation}${by}`
  return [...claims, atMost(what, 1.2, median(ratios), Math.max(...ratios))]
}

/** On connections of ours no script has to ask the server for its run, so less is allowed. */
function redlock5Claims(row: Row, rows: readonly Row[], by: string): Claim[] {
  const { p50Ratio, p50RatioSpread } = row
  const isThere = sameOf(row, rows, 'all alive', ({ who }) => who === REDLOCK5) !== undefined
  if (!isThere || row.client !== 'ioredis') return []
  const bar = row.variant === BY_CONNECT ? 1 : 1.1
  return [atMost(`p50, as a multiple of ${REDLOCK5}${by}`, bar, p50Ratio, p50RatioSpread.max)]
}

function sameOf(
  { group }: Row,
  rows: readonly Row[],
  situation: string,
  isIt: (row: Row) => boolean,
): Row | undefined {
  return rows.find((row) => row.group === group && row.quorum?.situation === situation && isIt(row))
}

/** What guards the row also bounds the holder; what it costs is told of a plain one that is bounded too. */
function boundedClaims(row: Row, rows: readonly Row[]): Claim[] {
  const plain = rows.find(
    ({ group, client, variant }) =>
      group === row.group && client === row.client && variant === BOUNDED,
  )
  if (plain === undefined) return []
  const ratios = row.p50MsOfRuns.map((p50Ms, run) => p50Ms / (plain.p50MsOfRuns[run] ?? 0))
  const what = `p50, as a multiple of ${PLAIN} with the same time-outs`
  return [atMost(what, 1.12, median(ratios), Math.max(...ratios), 1.18)]
}

function atMost(
  what: string,
  bar: number,
  figure: number,
  worst: number,
  accepted?: number,
): Claim {
  return { what, isUpper: true, bar, accepted, figure, worst }
}

function atLeast(what: string, bar: number, figure: number, worst: number): Claim {
  return { what, isUpper: false, bar, figure, worst }
}
