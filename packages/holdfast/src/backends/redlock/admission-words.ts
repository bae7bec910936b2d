/** What to say where fewer than a quorum of the nodes vote: what can be done, and how long it takes. */
import { BackendUnavailableError, type UnavailableReason, type Vote } from '../../core/errors.ts'
import type { AdmissionRules, Outlook } from './admission-table.ts'
import { quorumOf } from './marker.ts'
import type { Sight, SightKind } from './sight.ts'

/**
 * @param passedMs Since the outlook, milliseconds.
 * @param votes Of the call that is told.
 */
export function whyTooFew(
  { sights, votingCount, waitMs }: Outlook,
  passedMs: number,
  rules: AdmissionRules,
  votes?: readonly Vote[],
): BackendUnavailableError {
  const of = (kind: SightKind): Sight[] => sights.filter((sight) => sight.kind === kind)
  const [closed] = of('closed')
  const [foreign] = of('wrong-set')
  const [twin] = of('same-server')
  const away = of('unreachable')
  const told = { votes, cause: away[0]?.error }
  const because = (words: string, why: UnavailableReason = 'no-quorum'): BackendUnavailableError =>
    new BackendUnavailableError(why, words, told)
  if (closed !== undefined) return because(closedWords(closed, rules))
  if (foreign !== undefined) return because(foreignWords(foreign, rules))
  if (twin !== undefined) return because(twinWords(twin, sights))
  const need = quorumOf(sights.length)
  const count = `${votingCount} of ${sights.length} nodes may vote, ${need} are needed`
  if (away.length > 0) {
    const names = away.map(({ node }) => `"${node.name}"`).join(', ')
    const back =
      sights.length - away.length >= need
        ? '; if they never come back, see `holdfast redlock init --force`'
        : ''
    const isDecisive = away.length > sights.length - need
    const why = isDecisive ? commonReason(away) : 'no-quorum'
    return because(`${count}; no answer from ${names}${back}`, why)
  }
  if (rules.onEmpty === 'refuse' && !rules.isForced) {
    const words =
      'too many have no data, and onEmpty is "refuse": see `holdfast redlock init --force`'
    return because(`${count}; ${words}`)
  }
  const restMs = Math.max(0, Math.ceil((waitMs ?? 0) - passedMs))
  const words = 'the others came back empty, or were restarted, and leases of before may be in use'
  return because(`${count}; ${words}: nothing is granted for another ${restMs} ms`)
}

function closedWords({ node }: Sight, { keyPrefix }: AdmissionRules): string {
  return (
    `the locks of key prefix "${keyPrefix}" have moved to another set of nodes, so node ` +
    `"${node.name}" says: open them with the nodes that it has now`
  )
}

function foreignWords({ node, marker }: Sight, { keyPrefix, names }: AdmissionRules): string {
  const whose = marker === null ? 'nothing that we can read' : theirs(marker.names)
  return (
    `node "${node.name}" belongs to other nodes of key prefix "${keyPrefix}": its marker has ${whose}, ` +
    `not ${list(names)}; nothing was written. Members change by \`holdfast redlock reconfigure\``
  )
}

function twinWords({ node, runId }: Sight, sights: readonly Sight[]): string {
  const other = sights.find((sight) => sight.runId === runId)?.node
  return (
    `nodes "${other?.name}" and "${node.name}" are one and the same server, which may vote once: ` +
    'each node needs a server of its own'
  )
}

function theirs(names: readonly string[]): string {
  return names.length === 0 ? 'a set that was given up' : list(names)
}

function list(names: readonly string[]): string {
  return `the set ${names.join(', ')}`
}

/** What stands in the way of all of those, if it is one thing: no right, for example. */
function commonReason(away: readonly Sight[]): UnavailableReason {
  const reasons = new Set(
    away.map(({ error }) => (error instanceof BackendUnavailableError ? error.why : 'no-quorum')),
  )
  const [reason = 'no-quorum'] = reasons
  return reasons.size === 1 ? reason : 'no-quorum'
}
