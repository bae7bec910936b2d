/**
 * The record of a run as a page. It is made of the JSON document alone, which is kept beside it: so
 * whoever doubts the page can make it again, and a test does.
 */
import { barText } from '../bars.ts'
import type { ArmDocument, LabDocument, ScenarioDocument } from './json.ts'
import { minutes, protectionText, seconds, wrapped } from './text.ts'

const WIDTH_MAX = 120

/** @param jsonName The name of the file beside it that holds the document. */
export function recordPage(document: LabDocument, jsonName: string): string {
  const isEmbedded = document.stores === 'embedded'
  const lines = [
    isEmbedded ? '# The record of the lab without servers' : '# The record of the lab',
    '',
    ...wrapped(
      `One run of the experiments ${isEmbedded ? 'on files of SQLite, without a server' : 'on real servers'}, as the lab wrote it down. ${verdictText(document)} ` +
        'What the scenarios and arms do, and what a verdict means, is in ' +
        '[packages/cli](../packages/cli/README.md); the same run as data is in ' +
        `[${jsonName}](${jsonName}).`,
      WIDTH_MAX,
    ),
    '',
    ...runTable(document),
    ...document.scenarios.flatMap(scenarioLines),
  ]
  return `${lines.join('\n')}\n`
}

function verdictText({ scenarios }: LabDocument): string {
  const others = scenarios.filter(({ verdict }) => verdict !== 'holds')
  if (others.length === 0) return `All claims of its ${scenarios.length} scenarios hold.`
  return `Not all claims hold: ${others.map(({ name, verdict }) => `${name} ${verdict}`).join(', ')}.`
}

function runTable(document: LabDocument): string[] {
  const { commit, seed, profile, rounds, pause, startedAt, elapsedMs, machine, node } = document
  const { cpu, cores, memoryGiB, system } = machine
  const { sqlite } = document
  const embedded = sqlite ? [`SQLite ${sqlite.version} (${sqlite.driver})`] : []
  const servers = Object.entries(document.servers).map(([name, version]) => `${name} ${version}`)
  const rows = [
    ['commit', `\`${commit}\``],
    ['seed', `${seed}`],
    ['profile', `${profile}: ${rounds} rounds of each arm, pause by ${pause}`],
    ['began, took', `${startedAt}, ${minutes(elapsedMs)}`],
    ['machine', `${cpu}, ${cores} cores, ${memoryGiB} GiB, ${system}`],
    ['versions', [`Node ${node}`, ...servers, ...embedded].join(', ')],
    ['to run it again', `\`${document.replay}\``],
  ]
  return ['| run | |', '| --- | --- |', ...rows.map((row) => tableRow(row))]
}

function scenarioLines(scenario: ScenarioDocument): string[] {
  const { name, claim, verdict, lanes, rounds, arms, errors } = scenario
  const metrics = keysOf(arms, ({ metrics }) => metrics)
  const timings = keysOf(arms, ({ timings }) => timings)
  const keys = [...metrics, ...timings]
  const head = ['arm', 'protected', 'rounds', 'drawn again', ...keys, 'time', 'verdict']
  const rows = arms.map((arm) => [
    arm.name,
    protectionText(arm),
    `${arm.rounds}`,
    `${arm.redrawn}`,
    ...metrics.map((key) => `${arm.metrics[key] ?? ''}`),
    ...timings.map((key) => `${arm.timings[key] ?? ''}`),
    seconds(arm.elapsedMs),
    arm.verdict,
  ])
  return [
    '',
    `## ${name}: ${verdict}`,
    '',
    ...wrapped(`${claim} (${rounds} rounds of each arm, ${lanes} at once.)`, WIDTH_MAX),
    '',
    tableRow(head),
    tableRow(head.map((_, index) => (index < 2 || index === head.length - 1 ? '---' : '--:'))),
    ...rows.map((row) => tableRow(row)),
    '',
    ...arms.flatMap(armLines),
    ...errors.flatMap((error) =>
      wrapped(`* ended before its time: ${firstLine(error)}`, WIDTH_MAX, '  '),
    ),
  ]
}

/** Whatever any of the arms has, in the order in which it is met first. */
function keysOf(
  arms: readonly ArmDocument[],
  of: (arm: ArmDocument) => Readonly<Record<string, number>>,
): string[] {
  return [...new Set(arms.flatMap((arm) => Object.keys(of(arm))))]
}

function armLines({ name, claim, skipped, bars = [], breaches, problems }: ArmDocument): string[] {
  const lines = [`* ${name}: ${claim}`, ...bars.map((bar) => `  ${barText(bar)}`)]
  if (skipped !== null) lines.push(`  Skipped: ${skipped}`)
  for (const text of [...breaches, ...problems].slice(0, 5))
    lines.push(`  Wrong: ${firstLine(text)}`)
  return lines.flatMap((line) => wrapped(line, WIDTH_MAX, '  '))
}

function tableRow(cells: readonly string[]): string {
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

function firstLine(text: string): string {
  return text.split('\n')[0] ?? ''
}
