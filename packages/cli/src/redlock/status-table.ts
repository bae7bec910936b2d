import Table from 'cli-table3'
import type { NodeStatus } from 'holdfast/redlock'

/** What is said of a set of nodes, as JSON and as text. */
export interface StatusDocument {
  readonly keyPrefix: string
  readonly votingCount: number
  /** How many have to vote. */
  readonly quorum: number
  readonly nodes: readonly NodeStatus[]
}

export function statusDocument(keyPrefix: string, nodes: readonly NodeStatus[]): StatusDocument {
  const votingCount = nodes.filter(({ state }) => state === 'voting').length
  return { keyPrefix, votingCount, quorum: Math.floor(nodes.length / 2) + 1, nodes }
}

export function statusText(document: StatusDocument): string {
  const { nodes, votingCount, quorum, keyPrefix } = document
  const table = new Table({
    head: ['node', 'state', 'votes after', 'longest TTL', 'detail'],
    colAligns: ['left', 'left', 'right', 'right', 'left'],
    // Colours would be written out as they are in a pipe.
    style: { head: [], border: [], compact: true },
  })
  for (const { node, state, waitMs, maxTtlMs, detail } of nodes) {
    table.push([node, state, seconds(waitMs), seconds(maxTtlMs), detail ?? ''])
  }
  const verdict = votingCount >= quorum ? 'locks are granted' : 'no lock is granted'
  const counts = `${votingCount} of ${nodes.length} vote, ${quorum} are needed`
  return `${table.toString()}\nkey prefix "${keyPrefix}": ${counts}: ${verdict}`
}

export function seconds(ms: number | null): string {
  return ms === null ? '' : `${(ms / 1000).toFixed(1)} s`
}
