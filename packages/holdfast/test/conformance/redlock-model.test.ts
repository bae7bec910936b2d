import { describe, it } from 'vitest'
import { redlockBackendWith } from '../../src/backends/redlock/redlock-backend.ts'
import { NodeClient } from '../../src/sim/node/client.ts'
import { RedisNode } from '../../src/sim/node/node.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { createVirtualClock, seamsOf } from '../../src/testkit/virtual-clock.ts'
import { byName } from './redlock-clients.ts'

// The simulation of a Redlock stands on these nodes: what they lack, no schedule can find.
const open = async (): Promise<OpenBackends> => {
  const clock = createVirtualClock()
  const seams = seamsOf(clock)
  const nodes = Array.from({ length: 3 }, () => new RedisNode(seams))
  const options = { onEmpty: 'fresh' } as const
  const reach = () =>
    redlockBackendWith(seams, byName(nodes.map((node) => new NodeClient(node))), options)
  const [ours, theirs] = [reach(), reach()]
  // What a node keeps for ever are its counters and its marker.
  const withoutEnd = async () =>
    nodes
      .flatMap((node) => node.keysWithoutEnd())
      .filter((key) => !/#hf:(token:|marker$)/.test(key))
  const close = async () => {
    await Promise.all([ours.close(), theirs.close()])
    for (const node of nodes) node.stop()
  }
  return { ours, theirs, clock, withoutEnd, close }
}
testBackend({ describe, it }, { title: 'three models of a Redis', ttlMsMin: 100, open })
