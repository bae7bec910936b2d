/** What the store of the data says of an election, beside what those who wrote there were told. */
import type { Entry } from '../../history.ts'

export type Row = Readonly<{ term: string; writer: string }>

/** The store's own account of what was told. */
export function storeProblems(entries: readonly Entry[], finals: unknown): string[] {
  if (!Array.isArray(finals)) return ['the store was not looked at']
  const rows = finals as readonly Row[]
  return entries
    .filter(({ op, answer }) => (op === 'write' || op === 'late') && answer === 'accepted')
    .filter(({ token, process }) => {
      return !rows.some(({ term, writer }) => term === token && writer === process)
    })
    .map(({ token, process }) => `a write of ${process} in term ${token} is not in the store`)
}

/** Its order is that in which the writes took effect: terms never go back, and each has one writer. */
export function storeBreaches(rows: readonly Row[]): string[] {
  const breaches: string[] = []
  const writers = new Map<string, string>()
  let last = 0n
  for (const { term, writer } of rows) {
    if ((writers.get(term) ?? writer) !== writer) breaches.push(`two wrote in term ${term}`)
    writers.set(term, writer)
    if (BigInt(term) < last) breaches.push(`term ${term} was written after term ${last}`)
    last = BigInt(term)
  }
  return breaches
}
