/**
 * One arm of `availability`: nodes of its own, one process that asks for 200 locks while all of them
 * are alive, the fault, and 200 more. The first 200 are what the second are compared with: on the same
 * connections, in the same minute of the machine.
 */
import type { RedisServer } from '../../servers/index.ts'
import type { Trial } from '../../trial.ts'
import { nodeState } from '../quorum/look.ts'
import type { AskInput } from './ask.ts'

/** What happens to the nodes between the two halves. */
export type NodeFault = (nodes: readonly RedisServer[]) => Promise<string>

export interface AvailabilityPlan {
  readonly nodes: 1 | 3
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
    const nodes = await Promise.all(Array.from({ length: plan.nodes }, () => trial.startRedis()))
    const asker = await trial.startWorker('asker')
    const { place, rounds } = trial
    const ports = nodes.map(({ port }) => port)
    const how = plan.isRefused
      ? { atOnce: REFUSED_AT_ONCE, waitMs: REFUSED_WAIT_MS }
      : { atOnce: 1, waitMs: GRANTED_WAIT_MS }
    const input: AskInput = { ports, place, count: rounds, ...how }
    const asking = asker.run('ask', 0, input)
    await Promise.race([asker.until('measured'), asking])
    // In an order that the seed decides: no node is the first of all for ever.
    const first = Math.floor(trial.draw('first node') * nodes.length)
    const struck = [...nodes.slice(first), ...nodes.slice(0, first)]
    await trial.call(0, 'fault', async () => ({ answer: await plan.fault(struck) }))
    asker.mark('fault')
    await asking
    await trial.call(0, 'look', async () => {
      const states = await Promise.all(ports.map((port) => nodeState(port)))
      return { answer: [...states].sort().join(' ') }
    })
    trial.progress(rounds)
    return null
  }
}
