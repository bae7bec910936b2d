/** What the checkers of `watchdog` share: entries by round, and what the wire shows of one. */
import type { Entry } from '../../history.ts'

/** In the order in which they began. */
export function byRound(entries: readonly Entry[]): Map<number, Entry[]> {
  const rounds = new Map<number, Entry[]>()
  for (const entry of [...entries].sort((a, b) => a.calledAtUs - b.calledAtUs)) {
    const group = rounds.get(entry.round)
    if (group === undefined) rounds.set(entry.round, [entry])
    else group.push(entry)
  }
  return rounds
}

/**
 * When the requests about the lock that were answered well, before `cutAtUs`, had passed the proxy.
 * Answers come in the order of the requests; those without one do not count.
 */
export function answeredRequestsUs(entries: readonly Entry[], cutAtUs: number): number[] {
  const open: Entry[] = []
  const answered: number[] = []
  for (const entry of entries) {
    if (entry.op === 'request') open.push(entry)
    if (entry.op !== 'reply') continue
    const request = open.shift()
    if (request?.answer !== 'about-lock' || entry.answer !== 'ok') continue
    if (entry.calledAtUs < cutAtUs) answered.push(request.calledAtUs)
  }
  return answered
}

/** Of etcd: when a keep-alive of the lock's session passed the proxy that was answered before `cutAtUs`. */
export function keptAliveUs(entries: readonly Entry[], cutAtUs: number): number[] {
  return entries
    .filter(({ op, answer, answeredAtUs }) => {
      return op === 'kept' && answer === 'ok' && answeredAtUs < cutAtUs
    })
    .map(({ calledAtUs }) => calledAtUs)
}

/** In milliseconds, the TTL that etcd granted; a text: why that is not known. */
export function grantedIn(entries: readonly Entry[], askedMs: number): number | string {
  const granted = entries.find(({ op }) => op === 'granted')
  const acquire = entries.find(({ op }) => op === 'acquire')
  if (granted === undefined) return 'nobody looked at what etcd granted'
  const isHolders = acquire?.owner !== undefined && (granted.detail ?? '').endsWith(acquire.owner)
  if (!isHolders) return 'etcd did not name the holder'
  const { value: grantedMs = 0 } = granted
  return grantedMs < askedMs
    ? `etcd granted ${grantedMs} ms where ${askedMs} were asked for`
    : grantedMs
}

/** For the report: the longest of them. */
export function grantedFigures(entries: readonly Entry[]): Record<string, number> {
  const granted = entries.flatMap(({ op, value }) => (op === 'granted' ? [value ?? 0] : []))
  return granted.length === 0 ? {} : { grantedTtlMs: Math.max(...granted) }
}

const ETCD = /^etcd, /

/** An arm on etcd is judged as the one without it, but by what etcd says of its sessions. */
export function isOnEtcd(armName: string): boolean {
  return ETCD.test(armName)
}

export function kindOf(armName: string): string {
  return armName.replace(ETCD, '')
}

/** Why an operation failed, if one did. */
export function failureIn(entries: readonly Entry[]): string | null {
  const failed = entries.find(({ answer }) => answer === 'failed')
  return failed === undefined ? null : `${failed.op} failed: ${failed.detail}`
}
