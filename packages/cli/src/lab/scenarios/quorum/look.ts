/** What the lab itself sees of a node, past Holdfast and past every client library. */
import { call } from '../../servers/redis.ts'

/** `gone`: nobody listens there. `silent`: the connection is made and nobody answers. */
export type NodeState = 'alive' | 'silent' | 'gone'

/** A server that runs answers within milliseconds; on a busy machine it may take far longer. */
const ANSWER_MS_MAX = 3_000

export async function nodeState(port: number): Promise<NodeState> {
  try {
    await call(port, 'PING\r\n', ANSWER_MS_MAX, (text) => text.startsWith('+PONG'))
    return 'alive'
  } catch (error) {
    return (error as { code?: unknown }).code === 'ECONNREFUSED' ? 'gone' : 'silent'
  }
}
