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

/** Why an operation failed, if one did. */
export function failureIn(entries: readonly Entry[]): string | null {
  const failed = entries.find(({ answer }) => answer === 'failed')
  return failed === undefined ? null : `${failed.op} failed: ${failed.detail}`
}
