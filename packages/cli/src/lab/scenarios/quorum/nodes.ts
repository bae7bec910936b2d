/** Nodes as two sides see them, each side through proxies of its own: so one can be cut off alone. */
import type { FaultProxy } from 'holdfast/testkit'
import type { RedisOptions, RedisServer, Server } from '../../servers/index.ts'
import type { Trial } from '../../trial.ts'

export type Side = 'A' | 'B'

export interface Node<S extends Server = RedisServer> {
  readonly server: S
  readonly ways: Readonly<Record<Side, FaultProxy>>
}

export async function startNode(trial: Trial, options: RedisOptions = {}): Promise<Node> {
  return nodeOf(trial, await trial.startRedis(options))
}

/** A server that is there already. */
export async function nodeOf<S extends Server>(trial: Trial, server: S): Promise<Node<S>> {
  const [A, B] = await Promise.all([trial.startProxy(server.port), trial.startProxy(server.port)])
  return { server, ways: { A, B } }
}

export async function endNodes(nodes: readonly Node<Server>[]): Promise<void> {
  for (const { ways } of nodes) await Promise.all([ways.A.close(), ways.B.close()])
  await Promise.all(nodes.map(({ server }) => server.stop()))
}

export function portsOf(nodes: readonly Node<Server>[], side: Side): number[] {
  return nodes.map(({ ways }) => ways[side].port)
}

/** A black hole: connections stay, and nothing passes, in either direction. */
export function cut({ ways }: Node<Server>, side: Side): void {
  ways[side].drop('toServer')
  ways[side].drop('toClient')
}

/** What was lost stays lost, so connections that lost something are broken: clients make new ones. */
export function mend({ ways }: Node<Server>, side: Side): void {
  ways[side].heal()
  ways[side].reset()
}
