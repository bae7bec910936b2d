/** What the lab itself sees of a node, past Holdfast and past every client library. */
import { askEtcd } from '../../servers/etcd.ts'
import { call } from '../../servers/redis.ts'

/** `gone`: nobody listens there. `silent`: the connection is made and nobody answers. */
export type NodeState = 'alive' | 'silent' | 'gone'

/** A server that runs answers within milliseconds; on a busy machine it may take far longer. */
const ANSWER_MS_MAX = 3_000

export function nodeState(port: number): Promise<NodeState> {
  return stateBy(() => call(port, 'PING\r\n', ANSWER_MS_MAX, (text) => text.startsWith('+PONG')))
}

/** Of a member of etcd: it answers of itself also where there is no majority. */
export function memberState(port: number): Promise<NodeState> {
  return stateBy(() => askEtcd(port, '/v3/maintenance/status'))
}

async function stateBy(ask: () => Promise<unknown>): Promise<NodeState> {
  try {
    await ask()
    return 'alive'
  } catch (error) {
    return (error as { code?: unknown }).code === 'ECONNREFUSED' ? 'gone' : 'silent'
  }
}
