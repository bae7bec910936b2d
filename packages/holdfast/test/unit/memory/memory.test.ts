import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { memoryBackend, memoryBackendWith } from '../../../src/backends/memory/memory.ts'
import type { AcquireRequest, AcquireResult, Grant } from '../../../src/core/backend.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../../../src/core/errors.ts'
import { randomOwner } from '../../../src/core/owner.ts'
import { adoptSeams, systemSeams } from '../../../src/core/seams.ts'
import { TOKEN_MAX } from '../../../src/core/token.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

function request(lockName: string, fields: Partial<AcquireRequest> = {}): AcquireRequest {
  return {
    lockName,
    owner: randomOwner(),
    ttlMs: 1000,
    timeoutMs: 1000,
    lockDelayMs: 0,
    waits: false,
    waiter: randomOwner(),
    holder: { host: 'test', pid: 1 },
    onLost: () => undefined,
    ...fields,
  }
}

function granted(result: AcquireResult): Grant {
  if (result.kind !== 'granted') throw new Error(`expected a grant, got ${result.kind}`)
  return result.grant
}

function virtual(limits?: Parameters<typeof memoryBackendWith>[1]) {
  const clock = createVirtualClock()
  return { clock, backend: memoryBackendWith(seamsOf(clock), limits) }
}

describe('memory backend', () => {
  it('says what it is: one process, on the monotonic clock, woken by push', () => {
    expect(memoryBackend().capabilities).toEqual({
      scope: 'process',
      fencing: 'process-lifetime',
      expiry: 'monotonic-clock',
      lossNotice: 'before',
      order: 'queue-per-process',
      wakeUp: 'push',
      ttlMsMin: 100,
      ttlMsMax: 86_400_000,
    })
  })

  // B059: locks kept like cache entries were evicted while held, and handed out twice.
  it('refuses a new name when full, and drops no lock that is held', async () => {
    const { backend } = virtual({ namesMax: 10 })
    const held = granted(await backend.tryAcquire(request('held')))
    for (let count = 1; count < 10; count++) await backend.tryAcquire(request(`other ${count}`))
    for (let count = 0; count < 20; count++) {
      const refused = await backend.tryAcquire(request(`more ${count}`)).catch((error) => error)
      expect(refused).toBeInstanceOf(BackendUnavailableError)
      expect(refused.why).toBe('out-of-memory')
    }
    expect((await backend.tryAcquire(request('held'))).kind).toBe('held')
    expect(await backend.release(held, 0)).toBe('released')
    expect((await backend.tryAcquire(request('more'))).kind).toBe('granted')
  })

  // A full store must not need a quiet minute to find out that its entries have ended.
  it('takes new names in the places of ended ones, without waiting for their old owners', async () => {
    const { clock, backend } = virtual({ namesMax: 1000 })
    for (let count = 0; count < 1000; count++) await backend.tryAcquire(request(`old ${count}`))
    await expect(backend.tryAcquire(request('new'))).rejects.toBeInstanceOf(BackendUnavailableError)
    await clock.advance(1000)
    for (let count = 0; count < 1000; count++) {
      expect((await backend.tryAcquire(request(`new ${count}`))).kind).toBe('granted')
    }
  })

  // At the limit a hand-over needs no place of its own, or a full store could not pass locks on.
  it('hands over and revokes while full', async () => {
    const { backend } = virtual({ namesMax: 1 })
    const first = granted(await backend.tryAcquire(request('a')))
    const handed = await backend.handOver?.(first, request('a'), false)
    if (handed?.kind !== 'handed-over') throw new Error(`got ${handed?.kind}`)
    const { fencingToken } = handed.grant
    expect(await backend.revoke(request('a'), { fencingToken, reason: 'test' })).not.toBeNull()
  })

  // Tokens must not restart when the process does, as long as the clock goes forward; and a clock
  // that was set back must not take them back.
  it('draws tokens from the wall clock in microseconds, and never goes back with it', async () => {
    const { clock, backend } = virtual()
    const one = granted(await backend.tryAcquire(request('a'))).fencingToken
    expect(one).toBe(BigInt(clock.wallMs()) * 1000n)
    clock.stepWall(-3_600_000)
    const two = granted(await backend.tryAcquire(request('b'))).fencingToken
    expect(two).toBe(one + 1n)
    clock.stepWall(7_200_000)
    const three = granted(await backend.tryAcquire(request('c'))).fencingToken
    expect(three).toBe(BigInt(clock.wallMs()) * 1000n)
  })

  // The wall clock was stepped: no lease may end early or late by it.
  it('ends entries on the monotonic clock alone', async () => {
    const { clock, backend } = virtual()
    await backend.tryAcquire(request('a'))
    clock.stepWall(3_600_000)
    expect((await backend.tryAcquire(request('a'))).kind).toBe('held')
    clock.stepWall(-7_200_000)
    await clock.advance(999)
    expect(await backend.tryAcquire(request('a'))).toMatchObject({ kind: 'held', retryAfterMs: 1 })
    await clock.advance(1)
    expect((await backend.tryAcquire(request('a'))).kind).toBe('granted')
  })

  // Without a bound the memory of cancelled attempts grows with every time-out; but an attempt that
  // was made must be undone, so it is new ones that are refused.
  it('takes no new attempt while too many were cancelled, and still cancels', async () => {
    const { clock, backend } = virtual({ tombstonesMax: 100 })
    const fields = { ttlMs: 60_000 }
    const one = granted(await backend.tryAcquire(request('a', fields)))
    const two = granted(await backend.tryAcquire(request('b', fields)))
    for (let count = 0; count < 100; count++) await backend.cancel('c', randomOwner())
    const seen = { fencingToken: two.fencingToken, reason: 'test' }
    for (const asking of [
      () => backend.tryAcquire(request('d')),
      () => backend.handOver?.(two, request('b'), true),
      () => backend.revoke(request('b'), seen),
    ]) {
      const refused = await Promise.resolve(asking()).catch((error: unknown) => error)
      expect(refused).toBeInstanceOf(BackendUnavailableError)
      expect(refused).toMatchObject({ why: 'backlog' })
    }
    expect((await backend.renew(two, 60_000)).kind).toBe('renewed')
    await backend.cancel('a', one.owner)
    expect(await backend.inspect('a')).toBeNull()
    expect(await backend.release(two, 0)).toBe('released')
    await clock.advance(30_000)
    expect((await backend.tryAcquire(request('a'))).kind).toBe('granted')
  })

  // Cancelled once more just before the first tombstone ends: the second one must count in full.
  it('keeps a tombstone for 30 s from the last cancel', async () => {
    const { clock, backend } = virtual()
    const owner = randomOwner()
    await backend.cancel('a', owner)
    await clock.advance(29_000)
    await backend.cancel('a', owner)
    await clock.advance(29_999)
    expect((await backend.tryAcquire(request('a', { owner }))).kind).toBe('held')
    await clock.advance(1)
    expect((await backend.tryAcquire(request('a', { owner }))).kind).toBe('granted')
  })

  // A signal that lives as long as the process collected one listener for each wait.
  it('leaves no listener on a signal, however a sleep ends', async () => {
    const { backend } = virtual()
    const controller = new AbortController()
    for (let count = 0; count < 20; count++) {
      const grant = granted(await backend.tryAcquire(request('a')))
      const woken = backend.wakeUp?.('a', controller.signal)
      expect(getEventListeners(controller.signal, 'abort')).toHaveLength(1)
      await backend.release(grant, 0)
      await woken
    }
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
    await backend.tryAcquire(request('a'))
    const woken = backend.wakeUp?.('a', controller.signal)
    await backend.close()
    await woken
    expect(getEventListeners(controller.signal, 'abort')).toHaveLength(0)
  })

  // One service ends its locks while another goes on with the same backend.
  it('drops no lock at close', async () => {
    const { backend } = virtual()
    await backend.tryAcquire(request('a'))
    await backend.close()
    expect((await backend.tryAcquire(request('a'))).kind).toBe('held')
  })

  // Two services of one process share a backend: the one that holds would pass the lock on within its
  // own line for ever, and the other would never get it.
  it('says at a hand-over that others wait, for as long as they go on asking', async () => {
    const { clock, backend } = virtual()
    const handOver = async (grant: Grant, evenIfWanted: boolean) => {
      const result = await backend.handOver?.(grant, request('a', { ttlMs: 60_000 }), evenIfWanted)
      if (!result) throw new Error('handOver is missing')
      return result
    }
    const passed = async (grant: Grant) => {
      const result = await handOver(grant, true)
      if (result.kind !== 'handed-over') throw new Error(`got ${result.kind}`)
      return result
    }
    const first = granted(await backend.tryAcquire(request('a', { ttlMs: 60_000 })))
    await backend.tryAcquire(request('a'))
    const second = await passed(first)
    expect(second.wanted).toBe(false)
    await backend.tryAcquire(request('a', { waits: true }))
    const third = await passed(second.grant)
    expect(third.wanted).toBe(true)
    const fourth = await passed(third.grant)
    expect(fourth.wanted).toBe(true)
    await clock.advance(2000)
    const fifth = await passed(fourth.grant)
    expect(fifth.wanted).toBe(false)
    await backend.tryAcquire(request('a', { waits: true }))
    expect(await handOver(fifth.grant, false)).toEqual({ kind: 'freed' })
    expect(await backend.inspect('a')).toBeNull()
  })

  // The holder's abort listeners run inside the operator's revoke, and may release at once.
  it('tells a holder of its revoke at once, who may release from within', async () => {
    const { backend } = virtual()
    const told: string[] = []
    let answer: Promise<string> | undefined
    const old: Grant = granted(
      await backend.tryAcquire(
        request('a', {
          onLost: (reason) => {
            told.push(reason)
            answer = backend.release(old, 0)
          },
        }),
      ),
    )
    const { fencingToken } = old
    const taken = await backend.revoke(request('a'), { fencingToken, reason: 'test' })
    expect(told).toEqual(['revoked'])
    expect(await answer).toBe('not-held')
    expect((await backend.inspect('a'))?.fencingToken).toBe(taken?.fencingToken)
  })

  // The part of an entry's life by which the name stays taken after an expiry is not for working.
  it('gives a revoker what was left without the lock delay of the holder', async () => {
    const { clock, backend } = virtual()
    const old = granted(await backend.tryAcquire(request('a', { ttlMs: 1000, lockDelayMs: 400 })))
    await clock.advance(100)
    const seen = { fencingToken: old.fencingToken, reason: 'test' }
    expect((await backend.revoke(request('a'), seen))?.ttlMs).toBe(500)
    expect((await backend.inspect('a'))?.remainingMs).toBe(900)
  })

  // A grant is read on the backend's clock and judged on the engine's: two clocks would let a lease
  // live for ever.
  it('takes the clock of its first locks, and refuses another one afterwards', async () => {
    const clock = createVirtualClock()
    const backend = memoryBackend()
    adoptSeams(backend, seamsOf(clock))
    const grant = granted(await backend.tryAcquire(request('a')))
    expect(grant.sentAtMs).toBe(clock.nowMs())
    adoptSeams(backend, { ...seamsOf(clock) })
    const other = createVirtualClock()
    other.block(5000)
    expect(() => adoptSeams(backend, seamsOf(other))).toThrow(InvalidArgumentError)

    const used = memoryBackendWith(systemSeams)
    await used.tryAcquire(request('a'))
    const ahead = { ...systemSeams, nowMs: () => systemSeams.nowMs() + 5000 }
    expect(() => adoptSeams(used, ahead)).toThrow(InvalidArgumentError)
  })

  // Raised to the end of the range, no later grant could have a token.
  it('refuses to be raised to where no token is left', async () => {
    const { backend } = virtual()
    await expect(backend.raise('a', TOKEN_MAX)).rejects.toBeInstanceOf(InvalidArgumentError)
    await expect(backend.raise('a', 0n)).rejects.toBeInstanceOf(InvalidArgumentError)
    await backend.raise('a', TOKEN_MAX - 1n)
    const last = granted(await backend.tryAcquire(request('a')))
    expect(last.fencingToken).toBe(TOKEN_MAX)
  })
})
