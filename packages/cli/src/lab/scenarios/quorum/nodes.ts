/** Nodes as two sides see them, each side through proxies of its own: so one can be cut off alone. */
import type { FaultProxy } from 'holdfast/testkit'
import type { RedisOptions, RedisServer } from '../../servers/index.ts'
import type { Trial } from '../../trial.ts'

export type Side = 'A' | 'B'

export interface Node {
  readonly server: RedisServer
  readonly ways: Readonly<Record<Side, FaultProxy>>
}

export async function startNode(trial: Trial, options: RedisOptions = {}): Promise<Node> {
  const server = await trial.startRedis(options)
  const [A, B] = await Promise.all([trial.startProxy(server.port), trial.startProxy(server.port)])
  return { server, ways: { A, B } }
}

export async function endNodes(nodes: readonly Node[]): Promise<void> {
  for (const { ways } of nodes) await Promise.all([ways.A.close(), ways.B.close()])
  await Promise.all(nodes.map(({ server }) => server.stop()))
}

export function portsOf(nodes: readonly Node[], side: Side): number[] {
  return nodes.map(({ ways }) => ways[side].port)
}

/** A black hole: connections stay, and nothing passes, in either direction. */
export function cut({ ways }: Node, side: Side): void {
  ways[side].drop('toServer')
  ways[side].drop('toClient')
}

/** What was lost stays lost, so connections that lost something are broken: clients make new ones. */
export function mend({ ways }: Node, side: Side): void {
  ways[side].heal()
  ways[side].reset()
}
