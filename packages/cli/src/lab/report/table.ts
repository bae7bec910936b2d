/** What a person reads: one table for each scenario, and below it whatever needs words. */
import Table from 'cli-table3'
import type { ArmResult, ScenarioResult } from '../run.ts'
import type { MetricTitle } from '../scenario.ts'

/** Of each arm; the JSON report has all of them. */
const REMARKS_MAX = 5

export function tableReport(
  result: ScenarioResult,
  metrics: readonly MetricTitle[],
  roundsWanted: number,
): string {
  const titles = [...metrics.map(({ title }) => title), 'time']
  const table = new Table({
    head: ['arm', 'protected', 'rounds', ...titles, 'verdict'],
    colAligns: ['left', 'left', 'right', ...titles.map(() => 'right' as const), 'left'],
    // Colours would be written out as they are in a pipe; lines between rows tell nothing.
    style: { head: [], border: [], compact: true },
  })
  for (const arm of result.arms) {
    table.push([
      arm.name,
      protectionText(arm),
      arm.rounds,
      ...metrics.map(({ key }) => arm.metrics[key] ?? ''),
      `${(arm.elapsedMs / 1_000).toFixed(1)} s`,
      arm.verdict,
    ])
  }
  const lines = [
    `${result.name}: ${result.claim}`,
    table.toString(),
    `${result.name} ${result.verdict}; ${result.lanes} rounds at once${timingText(result.arms)}`,
    ...redrawnLines(result.arms),
    ...result.arms.flatMap((arm) => remarks(arm, roundsWanted)),
    // The whole of it is on stderr.
    ...result.errors.map((error) => `ended before its time: ${error.split('\n')[0]}`),
  ]
  return lines.join('\n')
}

function protectionText({ protected: isProtected, notCovered }: ArmResult): string {
  if (notCovered) return 'not covered'
  return isProtected ? 'yes' : 'no'
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
  return [`drawn again because B was not done before A's pause was over: ${list}`]
}

function remarks(arm: ArmResult, roundsWanted: number): string[] {
  const lines: string[] = []
  if (arm.verdict !== 'holds') lines.push(`${arm.name}: ${whyNot(arm, roundsWanted)}`)
  for (const text of [...arm.breaches, ...arm.problems].slice(0, REMARKS_MAX)) {
    lines.push(`  ${text}`)
  }
  const more = arm.breaches.length + arm.problems.length - REMARKS_MAX
  if (more > 0) lines.push(`  and ${more} more`)
  return lines
}

function whyNot(arm: ArmResult, roundsWanted: number): string {
  const claim = `"${arm.claim}"`
  if (arm.skipped !== undefined) return `skipped, ${arm.skipped}`
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
