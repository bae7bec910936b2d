/**
 * Whether a worker's account of one round is complete: every try asks for the lock, claims, reads,
 * writes and releases, as far as its arm does that; and the last try is the one that was applied.
 */
import type { Performance } from '../../checker.ts'
import type { Entry } from '../../history.ts'

/** What an arm's programs do. */
export interface Expectation {
  readonly takesLock: boolean
  readonly claims: boolean
  /** False where the store itself computes the new balance. */
  readonly reads: boolean
  readonly pauses: boolean
  /** By how much A and B change the balance. */
  readonly changes: Readonly<Record<'A' | 'B', number>>
}

/** What a round came to, as far as the workers' accounts tell. */
export interface Story {
  /** The write of the try in which A paused; there is none in an arm without a pause. */
  readonly lateWrite: Entry | undefined
  /** Of A and B together; two when nobody had to do its work again. */
  readonly tryCount: number
  readonly problems: readonly string[]
}

export function readStory({ round, entries }: Performance, expected: Expectation): Story {
  const problems: string[] = []
  let lateWrite: Entry | undefined
  let tryCount = 0
  for (const process of ['A', 'B'] as const) {
    const tries = triesOf(entries.filter((entry) => entry.process === process))
    const change = expected.changes[process]
    tryCount += tries.length
    tries.forEach((tried, index) => {
      const isLast = index === tries.length - 1
      for (const problem of tryProblems(tried, expected, change, isLast)) {
        problems.push(`round ${round}, try ${index + 1} of ${process}: ${problem}`)
      }
      if (process === 'A' && tried.pause !== undefined) lateWrite = tried.write
    })
    if (tries.length === 0) problems.push(`round ${round}: ${process} did nothing`)
  }
  if (expected.pauses && lateWrite === undefined)
    problems.push(`round ${round}: A did not write after its pause`)
  return { lateWrite, tryCount, problems }
}

type Try = Partial<Record<'acquire' | 'claim' | 'read' | 'pause' | 'write' | 'release', Entry>> & {
  readonly ops: readonly string[]
}

/** By number; the pause carries none and belongs to the try in which it happened. */
function triesOf(entries: readonly Entry[]): Try[] {
  const tries: Try[] = []
  let current: Entry[] = []
  let number = 1
  const close = (): void => {
    const byOp = Object.fromEntries(current.map((entry) => [entry.op, entry]))
    if (current.length > 0) tries.push({ ...byOp, ops: current.map(({ op }) => op) })
    current = []
  }
  for (const entry of entries) {
    if (entry.tryNumber !== undefined && entry.tryNumber !== number) {
      close()
      number = entry.tryNumber
    }
    current.push(entry)
  }
  close()
  return tries
}

function tryProblems(tried: Try, expected: Expectation, change: number, isLast: boolean): string[] {
  const { ops, acquire, claim, read, pause, write } = tried
  const problems: string[] = []
  const order = ['acquire', 'claim', 'read', 'pause', 'write', 'release']
  const places = ops.map((op) => order.indexOf(op))
  if (places.some((place, index) => place < 0 || place <= (places[index - 1] ?? -1))) {
    problems.push(`${ops.join(', ')} is not in order`)
  }
  if (read?.answer === 'cut' && write !== undefined) problems.push('it wrote without a read')
  const needs = ['write']
  if (expected.reads) needs.push('read')
  if (expected.takesLock) needs.push('acquire', 'release')
  if (expected.claims) needs.push('claim')
  // A try may end at its claim, its read or the commit after it, but then another one follows.
  const mayEndEarly = expected.claims && !isLast && pause === undefined
  // Without an answer there was no lock, and nothing else to do but to ask again.
  if (acquire?.answer === 'unanswered') {
    return isLast || ops.length > 1 ? [...problems, 'it went on without a lock'] : problems
  }
  for (const op of needs) {
    const isOptional = mayEndEarly && (op === 'read' || op === 'write')
    if (!ops.includes(op) && !isOptional) problems.push(`its ${op} is missing`)
  }
  if (!expected.takesLock && acquire !== undefined) problems.push('it took a lock')
  if (isLast && write !== undefined && write.answer !== 'applied') {
    problems.push(`it ended with a write that was "${write.answer}"`)
  }
  if (!isLast && write?.answer === 'applied') problems.push('it went on after an applied write')
  const basis = expected.reads ? read?.value : write?.basis
  if (write !== undefined && (write.basis !== basis || write.value !== sum(basis, change))) {
    problems.push(`it read ${basis} and wrote ${write.value}, computed from ${write.basis}`)
  }
  const tokens = new Set(
    [acquire?.token, claim?.token, write?.token].filter((t) => t !== undefined),
  )
  if (tokens.size > 1) problems.push(`it used several tokens: ${[...tokens].join(', ')}`)
  return problems
}

function sum(value: number | undefined, more: number): number | undefined {
  return value === undefined ? undefined : value + more
}
