import { describe, it } from 'vitest'
import { redisBackendWith } from '../../src/backends/redis/redis-backend.ts'
import { NodeClient } from '../../src/sim/node/client.ts'
import { RedisNode } from '../../src/sim/node/node.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { createVirtualClock, seamsOf } from '../../src/testkit/virtual-clock.ts'

// The simulation stands on this node: what it lacks of a Redis, no schedule can find.
const open = async (): Promise<OpenBackends> => {
  const clock = createVirtualClock()
  const seams = seamsOf(clock)
  const node = new RedisNode(seams)
  const ours = redisBackendWith(seams, new NodeClient(node))
  const theirs = redisBackendWith(seams, new NodeClient(node))
  const withoutEnd = async () => node.keysWithoutEnd().filter((key) => !key.includes('#hf:token:'))
  const close = async () => {
    await Promise.all([ours.close(), theirs.close()])
    node.stop()
  }
  return { ours, theirs, clock, withoutEnd, close }
}
testBackend({ describe, it }, { title: 'the model of a Redis', ttlMsMin: 100, open })
