/**
 * One arm of `availability`: nodes of its own, one process that asks for 200 locks while all of them
 * are alive, the fault, and 200 more. The first 200 are what the second are compared with: on the same
 * connections, in the same minute of the machine.
 */
import type { Server } from '../../servers/index.ts'
import type { Trial } from '../../trial.ts'
import { memberState, nodeState } from '../quorum/look.ts'
import { CLIENTS } from '../watchdog/clients.ts'
import type { AskInput } from './ask.ts'

/** What happens to the nodes between the two halves. */
export type NodeFault = (nodes: readonly Server[]) => Promise<string>

export interface AvailabilityPlan {
  /** Of Redis; or the members of an etcd. */
  readonly nodes: 1 | 3 | 'members'
  readonly fault: NodeFault
  /** Nobody can be granted anything after the fault. */
  readonly isRefused?: true
}

/** How long who is refused is ready to wait; for what must be granted, a busy machine counts less. */
const REFUSED_WAIT_MS = 1_000
const GRANTED_WAIT_MS = 10_000
/** Who waits to the end does so together with others. */
const REFUSED_AT_ONCE = 100

export const nothing: NodeFault = async () => 'nothing'

/** SIGKILL. */
export const kill =
  (count: number): NodeFault =>
  async (nodes) => {
    await Promise.all(nodes.slice(0, count).map((node) => node.kill()))
    return `killed ${count}`
  }

/** SIGSTOP: connections stay, and nobody answers. */
export const hang: NodeFault = async ([first]) => {
  first?.freeze()
  return 'hung 1'
}

export function availabilityOf(plan: AvailabilityPlan): (trial: Trial) => Promise<null> {
  return async (trial) => {
    const isEtcd = plan.nodes === 'members'
    const nodes = await (isEtcd ? startMembers(trial) : startNodes(trial, plan.nodes))
    const asker = await trial.startWorker('asker')
    const { place, rounds } = trial
    const ports = nodes.all.map(({ port }) => port)
    const how = plan.isRefused
      ? { atOnce: REFUSED_AT_ONCE, waitMs: REFUSED_WAIT_MS }
      : { atOnce: 1, waitMs: GRANTED_WAIT_MS }
    const drivers = isEtcd ? (['etcd'] as const) : CLIENTS
    const input: AskInput = { ports, drivers, place, count: rounds, ...how }
    const asking = asker.run('ask', 0, input)
    await Promise.race([asker.until('measured'), asking])
    await trial.call(0, 'fault', async () => ({ answer: await plan.fault(await nodes.inTurn()) }))
    asker.mark('fault')
    await asking
    await trial.call(0, 'look', async () => {
      const states = await Promise.all(
        ports.map((port) => (isEtcd ? memberState(port) : nodeState(port))),
      )
      return { answer: [...states].sort().join(' ') }
    })
    trial.progress(rounds)
    return null
  }
}

interface Nodes {
  readonly all: readonly Server[]
  /** Which one is struck first, and which one then. */
  inTurn(): Promise<readonly Server[]>
}

/** In an order that the seed decides: no node is the first of all for ever. */
async function startNodes(trial: Trial, count: number): Promise<Nodes> {
  const all = await Promise.all(Array.from({ length: count }, () => trial.startRedis()))
  const first = Math.floor(trial.draw('first node') * count)
  return { all, inTurn: async () => [...all.slice(first), ...all.slice(0, first)] }
}

/** The leader of that moment first: any other one that fails costs less. */
async function startMembers(trial: Trial): Promise<Nodes> {
  const { members: all, leader } = await trial.startEtcdCluster()
  return {
    all,
    inTurn: async () => {
      const first = await leader()
      return [first, ...all.filter((member) => member !== first)]
    },
  }
}
