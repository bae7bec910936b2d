import { describe, expect, it } from 'vitest'
import { Admission } from '../../../src/backends/redlock/admission.ts'
import type { NodeAsker } from '../../../src/backends/redlock/admission-port.ts'
import { setIdOf } from '../../../src/backends/redlock/marker.ts'
import { askerOf } from '../../../src/backends/redlock/operating.ts'
import { COUNTERS } from '../../../src/backends/redlock/scripts/admission.ts'
import type { RedisScript } from '../../../src/clients/redis.ts'
import { BackendUnavailableError } from '../../../src/core/errors.ts'
import { NodeClient } from '../../../src/sim/node/client.ts'
import { RedisNode } from '../../../src/sim/node/node.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

const MAX_TTL_MS = 10_000
/** 1 % more, and 100 ms. */
const WAIT_MS = 10_200
const MARKER = 'lock:#hf:marker'
const AMNESIA = { kind: 'amnesia', why: 'empty', marker: '' } as const

function open(onEmpty: 'wait' | 'fresh' | 'refuse' = 'wait') {
  const clock = createVirtualClock()
  const seams = seamsOf(clock)
  const names = ['a', 'b', 'c']
  const nodes = names.map(() => new RedisNode(seams))
  let asked = 0
  const failures = new Map<string, RedisScript>()
  const hooks: { onAsk: (name: string, script: RedisScript) => void } = { onAsk: () => undefined }
  const askers: NodeAsker[] = nodes.map((node, place) => {
    const client = new NodeClient(node) as never
    const settings = { client, subscriber: false, isDurable: false } as const
    const asker = askerOf(seams, { name: names[place] ?? '', ...settings })
    return {
      ...asker,
      ask: (...question) => {
        asked += 1
        hooks.onAsk(names[place] ?? '', question[0])
        const fails = failures.get(names[place] ?? '') === question[0]
        if (fails) return Promise.reject(new BackendUnavailableError('down', 'for the test'))
        return asker.ask(...question)
      },
    }
  })
  const rules = { keyPrefix: 'lock:', names, setId: setIdOf(names), maxTtlMs: MAX_TTL_MS }
  const admission = new Admission(() => seams, askers, { ...rules, onEmpty, isForced: false })
  return {
    ...{ clock, nodes, admission, askers },
    states: (): string =>
      nodes.map(({ keys }) => keys.find(MARKER, 0)?.value.slice(5, 6) ?? '-').join(''),
    asked: () => asked,
    ...{ failures, hooks },
    refused: () => admission.onRefusal(askers[0] as NodeAsker, AMNESIA),
  }
}

describe('a program whose nodes refused to vote', () => {
  it('sees to it by itself: once the wait is over all of them vote, and nothing more is asked', async () => {
    const world = open()
    world.refused()
    await world.clock.advance(0)
    expect(world.states()).toBe('www')
    await world.clock.advance(WAIT_MS - 1)
    expect(world.states()).toBe('www')
    await world.clock.advance(1)
    expect(world.states()).toBe('vvv')
    const asked = world.asked()
    await world.clock.advance(100 * WAIT_MS)
    expect(world.asked()).toBe(asked)
    expect(world.clock.pendingCount).toBe(0)
  })

  it('with onEmpty fresh uses new nodes as soon as it has looked at them', async () => {
    const world = open('fresh')
    world.refused()
    const settled = world.admission.settled()
    await world.clock.advance(0)
    await settled
    expect(world.states()).toBe('vvv')
  })

  // A thousand contenders are refused a thousand times a second.
  it('looks once a second at most, however often it is refused', async () => {
    const world = open('refuse')
    for (let time = 0; time < 100; time++) {
      world.refused()
      await world.clock.advance(100)
    }
    // One look, and what it writes, is 6 questions; later ones are 3 each, in 10 seconds.
    expect(world.asked()).toBeLessThanOrEqual(6 + 3 * 11)
    expect(world.asked()).toBeGreaterThan(6)
  })

  it('says how long it takes, in the words of what can be done', async () => {
    const world = open()
    expect(world.admission.explain([])).toBeNull()
    world.refused()
    await world.clock.advance(0)
    await world.clock.advance(5000)
    expect(world.admission.explain([])).toMatchObject({
      ...{ code: 'BACKEND_UNAVAILABLE', why: 'no-quorum' },
      message: expect.stringContaining('nothing is granted for another 5200 ms'),
    })
    world.nodes[1]?.stop()
    world.nodes[2]?.stop()
    await world.clock.advance(5200)
    expect(world.admission.explain([])?.message).toContain('no answer from "b", "c"')
    world.nodes[1]?.start(true)
    world.nodes[2]?.start(true)
    await world.clock.advance(5000 + WAIT_MS)
    expect(world.states()).toBe('vvv')
    expect(world.admission.explain([])).toBeNull()
  })

  it('lets one node wait while the others vote, also one that lost a counter alone', async () => {
    const world = open('fresh')
    world.refused()
    await world.clock.advance(0)
    world.nodes[1]?.keys.remove('lock:#hf:token:{05}', 0)
    const marker = world.nodes[1]?.keys.find(MARKER, 0)?.value ?? ''
    world.admission.onRefusal(world.askers[1] as NodeAsker, {
      ...AMNESIA,
      why: 'no-counter',
      marker,
    })
    await world.clock.advance(1000)
    expect(world.states()).toBe('vwv')
    await world.clock.advance(WAIT_MS)
    expect(world.states()).toBe('vvv')
  })

  // A name that leads to another server for a moment, at the very end of the wait.
  it('goes on when what was in the way of all is over', async () => {
    const world = open('fresh')
    world.refused()
    await world.clock.advance(0)
    const [, second, third] = world.nodes
    third?.keys.remove(MARKER, 0)
    await world.clock.advance(2000)
    world.admission.onRefusal(world.askers[2] as NodeAsker, AMNESIA)
    await world.clock.advance(1000)
    expect(world.states()).toBe('vvw')
    const marker = second?.keys.find(MARKER, 0)?.value ?? ''
    second?.keys.put(MARKER, { type: 'string', value: 'of somebody else', expiresAtMs: null })
    await world.clock.advance(WAIT_MS)
    second?.keys.put(MARKER, { type: 'string', value: marker, expiresAtMs: null })
    await world.clock.advance(10 * WAIT_MS)
    expect(world.states()).toBe('vvw')
    const stands = third?.keys.find(MARKER, 0)?.value ?? ''
    const waiting = { kind: 'amnesia', why: 'waiting', marker: stands } as const
    world.admission.onRefusal(world.askers[2] as NodeAsker, waiting)
    await world.clock.advance(2000)
    expect(world.states()).toBe('vvv')
  })

  it('asks nothing more of a node for which it waits, however often that refuses', async () => {
    const world = open()
    world.refused()
    await world.clock.advance(0)
    const asked = world.asked()
    const marker = world.nodes[0]?.keys.find(MARKER, 0)?.value ?? ''
    for (let time = 0; time < 50; time++) {
      const waiting = { kind: 'amnesia', why: 'waiting', marker } as const
      world.admission.onRefusal(world.askers[0] as NodeAsker, waiting)
      await world.clock.advance(100)
    }
    expect(world.asked()).toBe(asked)
  })

  it('asks nothing at all because a TTL was too long', async () => {
    const world = open()
    world.admission.onRefusal(world.askers[0] as NodeAsker, { kind: 'too-long', maxTtlMs: 100 })
    await world.clock.advance(5000)
    expect(world.asked()).toBe(0)
  })

  it('says that it looks while it does so for the first time', async () => {
    const world = open()
    world.refused()
    world.admission.settled()
    expect(world.admission.explain([])?.message).toContain('it is being looked at them')
    await world.clock.advance(0)
    expect(world.admission.explain([])?.message).toContain('may vote')
  })

  it('looks once more at what was reported while it looked', async () => {
    const world = open('fresh')
    world.refused()
    const settled = world.admission.settled()
    world.refused()
    await world.clock.advance(0)
    await settled
    expect(world.states()).toBe('vvv')
    const asked = world.asked()
    await world.clock.advance(1000)
    expect(world.asked()).toBe(asked + 3)
    await world.clock.advance(60_000)
    expect(world.asked()).toBe(asked + 3)
  })

  it.each([
    ['is as long as the longest TTL of a set that was closed in favour of this one', true],
    ['is not made longer by what stood there of another set', false],
  ])('the wait %s', async (_, isOurs) => {
    const world = open()
    const names = isOurs ? ['a', 'b', 'c'] : ['x', 'y']
    const rest = isOurs ? setIdOf(names) : 'x,y'
    const setId = isOurs ? setIdOf(['x', 'y']) : setIdOf(names)
    const runId = world.nodes[0]?.runId ?? ''
    const state = isOurs ? 'c' : 'v'
    const value = `hfm1:${state}:${'i'.repeat(22)}:${setId}:02:00040000:${runId}:${rest}`
    world.nodes[0]?.keys.put(MARKER, { type: 'string', value, expiresAtMs: null })
    world.refused()
    await world.clock.advance(0)
    if (!isOurs) {
      expect(world.admission.explain([])?.message).toContain('belongs to other nodes')
      world.nodes[0]?.keys.remove(MARKER, 0)
      world.refused()
      await world.clock.advance(1000)
    }
    expect(world.states()).toBe('www')
    await world.clock.advance(WAIT_MS + 2000)
    expect(world.states()).toBe(isOurs ? 'www' : 'vvv')
    await world.clock.advance(40_500 - WAIT_MS)
    expect(world.states()).toBe('vvv')
  })

  it('where all wait, lets none vote while one does not tell its counters', async () => {
    const world = open()
    world.refused()
    await world.clock.advance(0)
    world.failures.set('b', COUNTERS)
    await world.clock.advance(2 * WAIT_MS)
    expect(world.states()).toBe('www')
    world.failures.clear()
    await world.clock.advance(6000)
    expect(world.states()).toBe('vvv')
  })

  // Started anew with data of before, its counters may have gone back, and with them the floor of the next.
  it('believes no counters of a node that was another server by the time it told them', async () => {
    const world = open('fresh')
    world.refused()
    await world.clock.advance(0)
    expect(world.states()).toBe('vvv')
    await world.clock.advance(5000)
    world.nodes[2]?.loseData()
    world.refused()
    await world.clock.advance(0)
    expect(world.states()).toBe('vvw')
    let count = 0
    world.hooks.onAsk = (name, script) => {
      if (name !== 'a' || script !== COUNTERS) return
      count += 1
      world.nodes[0]?.stop()
      world.nodes[0]?.start(true)
    }
    await world.clock.advance(WAIT_MS)
    expect(count).toBe(1)
    expect(world.states()).toBe('vvw')
  })

  it('stops when it is closed: no timer is left, and nothing is asked', async () => {
    const world = open()
    world.refused()
    await world.clock.advance(0)
    world.admission.close()
    expect(world.clock.pendingCount).toBe(0)
    const asked = world.asked()
    world.refused()
    await world.clock.advance(10 * WAIT_MS)
    expect(world.asked()).toBe(asked)
    expect(world.states()).toBe('www')
  })
})
