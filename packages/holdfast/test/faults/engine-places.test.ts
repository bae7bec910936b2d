import { expect, it } from 'vitest'
import { memoryBackendWith } from '../../src/backends/memory/memory.ts'
import type { Locks } from '../../src/core/lease.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { createVirtualClock, seamsOf, type VirtualClock } from '../../src/testkit/virtual-clock.ts'
import { watch } from '../support/open-engine.ts'

/** Two engines on one store that notes what a store with a queue would be told. */
function open(): { clock: VirtualClock; ours: Locks; theirs: Locks; left: string[] } {
  const clock = createVirtualClock()
  const left: string[] = []
  const stopWaiting = async (lockName: string): Promise<void> => {
    left.push(lockName)
  }
  const store = Object.assign(memoryBackendWith(seamsOf(clock)), { stopWaiting })
  const engine = (): Locks => createLocksWith(seamsOf(clock), store)
  return { clock, ours: engine(), theirs: engine(), left }
}

// A call with a short wait gave up, and all others waited for it until its place in the queue ended.
it('a store with a queue is told when the last contender of a name leaves without a grant', async () => {
  const { clock, ours, theirs, left } = open()
  const lease = await theirs.acquire('k')
  const short = watch(clock, ours.acquire('k', { waitMs: 100 }))
  const long = watch(clock, ours.acquire('k', { waitMs: 300 }))
  await clock.advance(200)
  expect([short.state, left]).toEqual(['rejected', []])
  await clock.advance(200)
  expect([long.state, left]).toEqual(['rejected', ['k']])
  await lease.release()
})

it('it is not told of one that was granted the name, nor of one that never waited', async () => {
  const { clock, ours, theirs, left } = open()
  const lease = await theirs.acquire('k')
  await expect(ours.tryAcquire('k')).resolves.toBeNull()
  const waiting = watch(clock, ours.acquire('k', { waitMs: 10_000 }))
  await clock.advance(50)
  await lease.release()
  await clock.advance(50)
  expect(waiting.state).toBe('resolved')
  await waiting.value?.release()
  expect(left).toEqual([])
})

it('closing gives up the places of all who wait', async () => {
  const { clock, ours, theirs, left } = open()
  const leases = [await theirs.acquire('a'), await theirs.acquire('b')]
  const waiting = ['a', 'b'].map((name) => watch(clock, ours.acquire(name)))
  await clock.advance(50)
  const closed = watch(clock, ours.close())
  await clock.advance(50)
  expect([closed.state, ...waiting.map(({ state }) => state)]).toEqual([
    'resolved',
    'rejected',
    'rejected',
  ])
  expect(left.sort()).toEqual(['a', 'b'])
  for (const lease of leases) await lease.release()
})
