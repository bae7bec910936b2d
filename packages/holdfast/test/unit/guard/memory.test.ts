import { describe, expect, it } from 'vitest'
import { memoryGuard, memoryGuardWith } from '../../../src/guards/memory/guard.ts'
import { memoryStore, memoryStoreWith } from '../../../src/guards/memory/store.ts'
import { fakeLocks } from '../../../src/testkit/fake-locks.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

const PLAIN = { lockName: 'k', fencingToken: 5n, owner: 'a-owner-of-the-suite_1', source: 's' }

describe('data in memory under a guard', () => {
  // The accident: an object that the caller kept is changed later, past every fence.
  it('is changed by what is committed, and by nothing else', async () => {
    const store = memoryStore()
    const guard = memoryGuard(store)
    const list = ['a']
    await guard.transaction(PLAIN, async (tx) => {
      tx.set('list', list)
      list.push('after set')
      ;(tx.get('list') as string[]).push('what was read')
    })
    ;(store.get('list') as string[]).push('what was read')
    expect(store.get('list')).toEqual(['a'])
    await guard.transaction(PLAIN, async (tx) => tx.set('list', undefined))
    expect(store.get('list')).toBeUndefined()
  })

  // The accident: the function goes on after its lease has ended, and its write is in the next commit.
  it('refuses what a function still asks after its lease has ended', async () => {
    const clock = createVirtualClock()
    const seams = seamsOf(clock)
    const store = memoryStoreWith(seams)
    const guard = memoryGuardWith(store, {}, seams)
    const locks = fakeLocks({ clock, renew: false })
    const lease = await locks.acquire('k', { ttlMs: 1000 })
    const late: unknown[] = []
    const write = guard.transaction(lease, async (tx) => {
      tx.set('k', 'early')
      await new Promise<void>((resolve) => seams.after(5000, resolve))
      try {
        tx.set('k', 'late')
      } catch (error) {
        late.push(error)
      }
    })
    const told = expect(write).rejects.toMatchObject({ code: 'LEASE_LOST' })
    await clock.advance(1000)
    await told
    const next = { ...PLAIN, fencingToken: lease.fencingToken + 1n, source: lease.source }
    await guard.transaction(next, async (tx) => tx.set('k', `${tx.get('k')} next`))
    await clock.advance(5000)
    expect(late).toMatchObject([{ code: 'LEASE_LOST' }])
    expect(store.get('k')).toBe('undefined next')
    await locks.close()
  })

  it('refuses a guarded call inside another one on the same store', async () => {
    const guard = memoryGuard(memoryStore())
    const inner = guard.transaction(PLAIN, async () => guard.claim({ ...PLAIN, lockName: 'other' }))
    await expect(inner).rejects.toMatchObject({ code: 'REENTRANT' })
    expect(await guard.claim(PLAIN)).toEqual({ seq: 1n })
  })

  // The accident: fences without end fill the memory, or one that is dropped lets the late writer in.
  it('drops no fence when all places are taken, and refuses a new one', async () => {
    const guard = memoryGuard(memoryStoreWith(seamsOf(createVirtualClock()), 2))
    const named = (lockName: string) => guard.claim({ ...PLAIN, lockName })
    await named('a')
    await named('b')
    await expect(named('c')).rejects.toMatchObject({ why: 'out-of-memory' })
    expect(await named('a')).toEqual({ seq: 2n })
    expect(await guard.highest('c')).toBeNull()
  })

  it('takes no store, transaction or option but its own', async () => {
    const [store, other] = [memoryStore(), memoryStore()]
    const wrong = { code: 'INVALID_ARGUMENT' }
    expect(() => memoryGuard({} as never)).toThrow(expect.objectContaining(wrong))
    for (const options of [
      { timeoutMs: 99 },
      { timeoutMs: 600_001 },
      { resource: 7 },
      { a: 1 },
      7,
    ]) {
      const make = () => memoryGuard(store, options as never)
      expect(make, JSON.stringify(options)).toThrow(expect.objectContaining(wrong))
    }
    const guard = memoryGuard(store)
    const kept: unknown[] = []
    await other.transaction(async (tx) => {
      kept.push(tx)
      await expect(guard.claim(PLAIN, tx)).rejects.toMatchObject(wrong)
    })
    await store.transaction((tx) => void kept.push(tx))
    for (const tx of kept)
      await expect(guard.claim(PLAIN, tx as never)).rejects.toMatchObject(wrong)
    await expect(guard.transaction(PLAIN, null as never)).rejects.toMatchObject(wrong)
    await expect(store.transaction(null as never)).rejects.toMatchObject(wrong)
    expect(await guard.highest('k')).toBeNull()
  })
})
