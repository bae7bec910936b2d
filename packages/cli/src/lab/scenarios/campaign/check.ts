/**
 * The checker of `campaign`. The book of winners is the store's account, the entries are the pods';
 * each winner must belong to an entry that says so, and the other way round. How many prizes were
 * given out is counted in the book.
 */
import type { Entry } from '../../history.ts'
import type { ArmFindings } from '../../scenario.ts'
import type { TrialRecord } from '../../trial.ts'
import type { Book, Winner } from './book.ts'

/** What the story asks for, written down here so that the checker does not ask those who play it. */
const PODS_MIN = 8
const PAUSE_MS_MIN = 800

export function checkCampaign(record: TrialRecord): ArmFindings {
  const { arm, size, entries, finals } = record
  const book = isBook(finals) ? finals : { remaining: Number.NaN, winners: [] }
  const gives = entries.filter(({ op }) => op === 'give')
  const problems = storyProblems(record, gives)
  if (book.remaining !== 0) problems.push(`${book.remaining} prizes are left in the end`)
  const untruths = compareWithBook(gives, book.winners)
  const disorder = arm.protected ? orderBreaches(book.winners, size) : []
  const breaches = arm.protected ? [...untruths, ...disorder] : []
  if (!arm.protected) problems.push(...untruths)
  const granted = book.winners.length
  const isTrue = arm.protected ? granted === size : granted > size
  return {
    rounds: 1,
    roundsTrue: isTrue ? 1 : 0,
    redrawn: 0,
    metrics: {
      granted,
      limit: size,
      refusedWrites: gives.filter(({ answer }) => answer === 'refused').length,
      pauses: entries.filter(({ op }) => op === 'pause').length,
      perSecond: perSecond(gives, granted),
    },
    timings: {},
    problems,
    breaches,
  }
}

/** At least eight pods gave out prizes, nothing failed, and in the arms with a lock pods paused. */
function storyProblems({ arm, entries }: TrialRecord, gives: readonly Entry[]): string[] {
  const problems: string[] = []
  const pods = new Set(gives.map(({ pid }) => pid))
  if (pods.size < PODS_MIN) problems.push(`only ${pods.size} pods took part`)
  for (const { op, process, answer, detail } of entries) {
    if (answer === 'failed') problems.push(`${op} of ${process} failed: ${detail}`)
  }
  const pauses = entries.filter(({ op }) => op === 'pause')
  if (arm.name === 'no lock') {
    if (pauses.length > 0) problems.push('somebody paused')
  } else if (pauses.length === 0) problems.push('nobody paused')
  for (const { process, calledAtUs, answeredAtUs } of pauses) {
    const lastedMs = (answeredAtUs - calledAtUs) / 1_000
    // Waits end on whole milliseconds and may be rounded down.
    if (lastedMs < PAUSE_MS_MIN - 2) problems.push(`${process} paused for ${lastedMs} ms only`)
  }
  return problems
}

/** What a pod was told and the book says otherwise. */
function compareWithBook(gives: readonly Entry[], winners: readonly Winner[]): string[] {
  const untruths: string[] = []
  const open = new Map<string, Entry>()
  for (const entry of gives) {
    const key = `${entry.process}/${entry.tryNumber}`
    if (open.has(key)) untruths.push(`${key} is there twice`)
    open.set(key, entry)
  }
  for (const { pod, section, basis, token } of winners) {
    const key = `${pod}/${section}`
    const entry = open.get(key)
    open.delete(key)
    if (entry === undefined) untruths.push(`${key} is in the book, and nobody wrote it down`)
    else if (entry.answer !== 'applied') {
      untruths.push(`${key} is in the book, but was answered "${entry.answer}"`)
    } else if (entry.basis !== basis || (entry.token ?? null) !== token) {
      untruths.push(`${key} is in the book with other figures than in the history`)
    }
  }
  for (const [key, { answer }] of open) {
    if (answer === 'applied') untruths.push(`${key} was answered "applied" and is not in the book`)
  }
  return untruths
}

/** Behind a guard every winner is entered with one prize less left, and tokens only rise. */
function orderBreaches(winners: readonly Winner[], limit: number): string[] {
  const breaches: string[] = []
  winners.forEach(({ basis, token }, index) => {
    if (basis !== limit - index) {
      breaches.push(`winner ${index + 1} was entered when ${basis} were left by its own reading`)
    }
    const before = winners[index - 1]?.token
    if (token === null) breaches.push(`winner ${index + 1} has no token`)
    else if (before !== null && before !== undefined && BigInt(token) <= BigInt(before)) {
      breaches.push(`winner ${index + 1} has token ${token} after ${before}`)
    }
  })
  return breaches
}

/** From the first look into the book to the last answer. */
function perSecond(gives: readonly Entry[], granted: number): number {
  let fromUs = Number.POSITIVE_INFINITY
  let toUs = 0
  for (const { calledAtUs, answeredAtUs } of gives) {
    fromUs = Math.min(fromUs, calledAtUs)
    toUs = Math.max(toUs, answeredAtUs)
  }
  return toUs > fromUs ? Math.round((granted / (toUs - fromUs)) * 1_000_000) : 0
}

function isBook(finals: unknown): finals is Book {
  return typeof finals === 'object' && finals !== null && 'winners' in finals
}
