/** What is told of the keys of a lock node, on a real model of one. */
import { beforeEach, describe, expect, it } from 'vitest'
import { redisBackendWith } from '../../../src/backends/redis/redis-backend.ts'
import type { Backend } from '../../../src/core/backend.ts'
import { emptyHistory, type History } from '../../../src/sim/history.ts'
import { NodeClient } from '../../../src/sim/node/client.ts'
import { RedisNode } from '../../../src/sim/node/node.ts'
import { SCENARIOS } from '../../../src/sim/scenarios.ts'
import { NodeWatch } from '../../../src/sim/stores/node-watch.ts'
import { acquired, request } from '../../../src/testkit/backend-harness.ts'
import {
  createVirtualClock,
  seamsOf,
  type VirtualClock,
} from '../../../src/testkit/virtual-clock.ts'

const TTL = { ttlMs: 400 }

let clock: VirtualClock
let node: RedisNode
let history: History
let watch: NodeWatch
let backend: Backend

beforeEach(() => {
  clock = createVirtualClock()
  node = new RedisNode(seamsOf(clock))
  history = emptyHistory()
  watch = new NodeWatch('n1', node, { history, scenario: SCENARIOS.lossless })
  const client = new NodeClient(node, async (deliver, call) => {
    const reply = deliver()
    if (call) watch.executed(call, false)
    return reply
  })
  backend = redisBackendWith(seamsOf(clock), client, { subscriber: false })
})

/** Everything that is told from now on. */
function told(): string[] {
  watch.look(clock.nowMs())
  return history.atNodes.splice(0).map(({ invariant, what }) => `${invariant}: ${what}`)
}

function write(key: string, value: string, lifeMs: number | null): void {
  const nowMs = Math.floor(node.clock.nowUs() / 1000)
  const expiresAtMs = lifeMs === null ? null : nowMs + lifeMs
  node.keys.put(key, { type: 'string', value, expiresAtMs })
}

describe('the keys of a node', () => {
  it('are in order through a life of locks', async () => {
    const first = await acquired(backend, 'a', TTL)
    expect(told()).toEqual([])
    await backend.renew(first, 400)
    await backend.release(first, 0)
    const { owner } = request('a')
    await backend.cancel('a', owner)
    await acquired(backend, 'a', TTL)
    expect(told()).toEqual([])
  })

  it('I7: a cancelled owner has no key again, while its tombstone lives', async () => {
    const asked = request('a', TTL)
    await backend.cancel('a', asked.owner)
    expect(told()).toEqual([])
    write('lock:a', `hf1:${asked.owner}:`, 400)
    expect(told()).toEqual([`I7: at n1, lock:a belongs to ${asked.owner}, whose cancel has run`])
    // What was lost is no tombstone any more, and nor is one that has ended.
    watch.onLoss()
    write('lock:a', `hf1:${asked.owner}:`, 400)
    expect(told()).toEqual([])
    await backend.cancel('a', asked.owner)
    await clock.advance(31_000)
    write('lock:a', `hf1:${asked.owner}:`, 400)
    expect(told()).toEqual([])
  })

  it.each([[null], [401]])('I7: no key of a lock lives longer than its TTL: %s', (lifeMs) => {
    const { owner } = request('a')
    write('lock:a', `hf1:${owner}:`, 400)
    write('lock:#hf:marker', 'voting', null)
    expect(told()).toEqual([])
    write('lock:a', `hf1:${owner}:`, lifeMs)
    expect(told()).toEqual([`I7: at n1, lock:a of ${owner} outlives its TTL`])
  })

  it('I7: where every request arrives, what was given up is gone soon after', async () => {
    const { owner } = await acquired(backend, 'a', TTL)
    history.ended.set(owner, { atMs: clock.nowMs(), how: 'released' })
    await clock.advance(70)
    expect(told()).toEqual([])
    await clock.advance(1)
    expect(told()).toEqual([`I7: at n1, lock:a belongs to ${owner}, released long ago`])
    // A release leaves no tombstone for what arrives twice; a cancel does.
    watch = new NodeWatch('n1', node, { history, scenario: SCENARIOS.lossless })
    history.repeated.add(owner)
    expect(told()).toEqual([])
    history.ended.set(owner, { atMs: 0, how: 'cancelled' })
    expect(told()).toEqual([`I7: at n1, lock:a belongs to ${owner}, cancelled long ago`])
  })

  it('I8: a counter falls only where data were lost', async () => {
    await acquired(backend, 'a', TTL)
    expect(told()).toEqual([])
    const [key = ''] = node.keysWithoutEnd()
    write(key, '5', null)
    expect(told()).toEqual([
      expect.stringMatching(/^I8: at n1, the counter .* fell from \d+ to 5$/),
    ])
    watch.onLoss()
    write(key, '4', null)
    expect(told()).toEqual([])
  })
})
