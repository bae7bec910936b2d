/** What a person reads: one table for each scenario, and below it whatever needs words. */
import Table from 'cli-table3'
import { barText } from '../bars.ts'
import type { ArmResult } from '../run.ts'
import type { MetricTitle } from '../scenario.ts'
import type { PlannedResult } from './json.ts'
import { protectionText, seconds, wrapped } from './text.ts'

/** Of each arm; the JSON report has all of them. */
const REMARKS_MAX = 5

/** @param widthMax Of the terminal; a table that does not fit is written as a list. */
export function tableReport(
  result: PlannedResult,
  metrics: readonly MetricTitle[],
  widthMax: number = Number.POSITIVE_INFINITY,
): string {
  const table = tableOf(result.arms, metrics)
  const lanes = result.lanes === 1 ? 'one round' : `${result.lanes} rounds`
  const lines = [
    `${result.name} ${result.verdict}; ${lanes} at once${timingText(result.arms)}`,
    ...redrawnLines(result.arms),
    ...result.arms.flatMap(({ name, bars = [] }) => bars.map((bar) => `${name}: ${barText(bar)}`)),
    ...skippedLines(result.arms),
    ...result.arms.flatMap((arm) => remarks(arm, result.rounds)),
    // The whole of it is on stderr.
    ...result.errors.map((error) => `ended before its time: ${error.split('\n')[0]}`),
  ]
  return [
    ...wrapped(`${result.name}: ${result.claim}`, widthMax),
    ...(widthOf(table) <= widthMax ? [table] : listOf(result.arms, metrics, widthMax)),
    ...lines.flatMap((line) => wrapped(line, widthMax, '  ')),
  ].join('\n')
}

function tableOf(arms: readonly ArmResult[], metrics: readonly MetricTitle[]): string {
  const titles = [...metrics.map(({ title }) => title), 'time']
  const table = new Table({
    head: ['arm', 'protected', 'rounds', ...titles, 'verdict'],
    colAligns: ['left', 'left', 'right', ...titles.map(() => 'right' as const), 'left'],
    // Colours would be written out as they are in a pipe; lines between rows tell nothing.
    style: { head: [], border: [], compact: true },
  })
  for (const arm of arms) {
    table.push([
      arm.name,
      protectionText(arm),
      arm.rounds,
      ...metrics.map(({ key }) => arm.metrics[key] ?? ''),
      seconds(arm.elapsedMs),
      arm.verdict,
    ])
  }
  return table.toString()
}

function widthOf(table: string): number {
  return Math.max(...table.split('\n').map((line) => [...line].length))
}

/** The same figures in two lines or more for each arm, as wide as there is room. */
function listOf(
  arms: readonly ArmResult[],
  metrics: readonly MetricTitle[],
  widthMax: number,
): string[] {
  return arms.flatMap((arm) => {
    const figures = metrics.flatMap(({ key, title }) => {
      const value = arm.metrics[key]
      // Titles are broken for the table, some within a word.
      return value === undefined ? [] : [`${title.replace('-\n', '').replace('\n', ' ')} ${value}`]
    })
    const before = [`protected: ${protectionText(arm)}`, `rounds ${arm.rounds}`]
    const all = [...before, ...figures, seconds(arm.elapsedMs)].join(', ')
    return [
      ...wrapped(`* ${arm.name}: ${arm.verdict}`, widthMax, '    '),
      ...wrapped(`    ${all}`, widthMax, '    '),
    ]
  })
}

function timingText(arms: readonly ArmResult[]): string {
  const longest = (key: string): number => Math.max(...arms.map(({ timings }) => timings[key] ?? 0))
  const grantMs = longest('nextGrantAfterMsMax')
  const claimMs = longest('nextClaimWaitMsMax')
  const grant = grantMs > 0 ? `; B got the lock at most ${Math.round(grantMs)} ms after A` : ''
  return claimMs > 0 ? `${grant} and waited at most ${Math.round(claimMs)} ms for its claim` : grant
}

function redrawnLines(arms: readonly ArmResult[]): string[] {
  const counts = arms.filter(({ redrawn }) => redrawn > 0)
  if (counts.length === 0) return []
  const list = counts.map(({ name, redrawn }) => `${redrawn} of ${name}`).join(', ')
  return [`drawn again because the fault did not happen as planned: ${list}`]
}

/** One for each reason, which is often the same for many. */
function skippedLines(arms: readonly ArmResult[]): string[] {
  const byReason = new Map<string, string[]>()
  for (const { name, skipped } of arms) {
    if (skipped !== undefined) byReason.set(skipped, [...(byReason.get(skipped) ?? []), name])
  }
  return [...byReason].map(([reason, names]) => `${names.join('; ')}: skipped, ${reason}`)
}

function remarks(arm: ArmResult, roundsWanted: number): string[] {
  const lines: string[] = []
  if (arm.verdict !== 'holds' && arm.skipped === undefined)
    lines.push(`${arm.name}: ${whyNot(arm, roundsWanted)}`)
  for (const text of [...arm.breaches, ...arm.problems].slice(0, REMARKS_MAX)) {
    lines.push(`  ${text}`)
  }
  const more = arm.breaches.length + arm.problems.length - REMARKS_MAX
  if (more > 0) lines.push(`  and ${more} more`)
  return lines
}

function whyNot(arm: ArmResult, roundsWanted: number): string {
  const claim = `"${arm.claim}"`
  if (arm.problems.length > 0) return 'void, the history does not fit together'
  if (arm.verdict === 'broken') {
    const outside = arm.breaches.length > 0 ? `; ${arm.breaches.length} breaches` : ''
    return `broken, ${claim} is true of ${arm.roundsTrue} of ${arm.rounds} rounds${outside}`
  }
  if (arm.rounds < roundsWanted) {
    return `void, ${arm.rounds} of ${roundsWanted} rounds went as planned, ${arm.redrawn} did not`
  }
  return `void, ${claim} is true of no round: the fault did not happen`
}
