import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { CANCEL } from '../../src/backends/redlock/scripts/cancel.ts'
import { BackendUnavailableError, type LockError } from '../../src/core/errors.ts'
import type { Locks } from '../../src/core/lease.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { allKeys, until } from '../support/redis.ts'
import { type RedlockOpening, standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
const LONG_MS = 20_000

async function warmed(opening?: RedlockOpening): Promise<Locks> {
  const locks = await stand.locks(opening, { ttlMs: 2000 })
  await (await locks.acquire('warm', { ttlMs: 2000 })).release()
  return locks
}

async function failureOf(promise: Promise<unknown>): Promise<LockError> {
  return promise.then(
    () => {
      throw new Error('it was granted')
    },
    (error: LockError) => error,
  )
}

const valuesOf = (lockName: string) =>
  Promise.all(stand.inspectors.map((redis) => redis.get(`lock:${lockName}`)))

async function untilGone(lockName: string): Promise<void> {
  const isGone = async () => (await valuesOf(lockName)).every((value) => value === null)
  await until(isGone, `nothing of "${lockName}" is left`)
}

const UNHEARD = 'the others had decided before it answered'

/** Of each node the answer, or why there is none. */
function reasonsOf({ votes = [] }: LockError): unknown[] {
  return votes.map(({ answer, cause, elapsedMs }) => {
    expect(elapsedMs).toBeGreaterThanOrEqual(0)
    if (answer !== 'failed') return answer
    return cause instanceof BackendUnavailableError ? cause.why : (cause as Error).message
  })
}

describe('a majority that answers too slowly', () => {
  // B002: votes were counted without a look at the clock, when acquiring and when extending.
  it.each([50, 5000])(
    'grants nothing and renews nothing, waited for %i ms',
    async (nodeTimeoutMs) => {
      const locks = await warmed({ proxied: true, options: { nodeTimeoutMs } })
      const lease = await locks.acquire('held', { ttlMs: 500, renew: false })
      for (const proxy of stand.proxies.slice(0, 2)) proxy.delay('toClient', 600)
      const [renewal, attempt] = await Promise.all([
        failureOf(lease.renew()),
        failureOf(locks.acquire('slow', { ttlMs: 500, waitMs: 0 })),
      ])
      expect(renewal.code).toMatch(/^(LEASE_LOST|OUTCOME_UNKNOWN|BACKEND_UNAVAILABLE)$/)
      expect(attempt.code).toMatch(/^(OUTCOME_UNKNOWN|BACKEND_UNAVAILABLE)$/)
      await until(() => lease.signal.aborted, 'the holder is told')
      // The late answers have come.
      await sleep(700)
      expect([lease.isHeld, lease.remainingMs()]).toEqual([false, 0])
      for (const proxy of stand.proxies) proxy.heal()
      await untilGone('slow')
      await lease.release()
    },
  )

  // The engine has a look of its own; what the backend says must be true without it.
  it('says of a late grant, and of a late renewal, that they are over', async () => {
    const { backend } = await stand.open({ proxied: true, options: { nodeTimeoutMs: 20_000 } })
    const request = {
      ...{ owner: 'o'.repeat(22), ttlMs: 500, timeoutMs: 5000, lockDelayMs: 0, waits: false },
      ...{ waiter: 'w'.repeat(22), holder: { host: 'test', pid: 1 }, onLost: () => undefined },
    }
    const first = await backend.tryAcquire({ ...request, lockName: 'first', ttlMs: 20_000 })
    if (first.kind !== 'granted') throw new Error(first.kind)
    for (const proxy of stand.proxies.slice(0, 2)) proxy.delay('toClient', 2000)
    const startMs = performance.now()
    const [second, renewed] = await Promise.all([
      backend.tryAcquire({ ...request, lockName: 'late', owner: 'p'.repeat(22) }),
      backend.renew(first.grant, 20_500),
    ])
    if (second.kind !== 'granted' || renewed.kind === 'lost') throw new Error('nothing came late')
    // From before it was sent, on a machine that may be busy, and not from its answer.
    expect(second.grant.sentAtMs + second.grant.ttlMs - startMs).toBeLessThan(500 + 1000)
    expect(renewed.sentAtMs + renewed.ttlMs - startMs).toBeLessThan(20_500 + 1000)
    await backend.release(first.grant, 0)
    await backend.release(second.grant, 0)
  })
})

describe('an attempt whose write arrived while the reply was lost', () => {
  /** A rival has `b` and `c`; the answers of `a` are lost. */
  async function halfTaken(): Promise<{ ours: Locks; rival: Locks }> {
    const rival = await warmed()
    const ours = await warmed({ proxied: true })
    await rival.acquire('k', { ttlMs: LONG_MS, renew: false })
    await stand.inspectors[0]?.del('lock:k')
    stand.proxies[0]?.drop('toClient')
    return { ours, rival }
  }

  // B041: only the nodes that had answered were cleaned up.
  it('is taken back there too: the next contender has its majority with that node', async () => {
    const { ours, rival } = await halfTaken()
    const options = { ttlMs: LONG_MS, waitMs: 0 }
    expect((await failureOf(ours.acquire('k', options))).code).toBe('LOCK_HELD')
    await stand.inspectors[2]?.del('lock:k')
    const lease = await rival.acquire('k', { ttlMs: LONG_MS, waitMs: 5000 })
    const [a, b, c] = (await valuesOf('k')).map((value) => value?.split(':').slice(0, 3).join())
    expect(a).toBe(c)
    expect(b).not.toBe(a)
    await lease.release()
  })

  // B042: the second try of one call was refused by what its first had left.
  it('is not in the way of its own next try', async () => {
    const { ours } = await halfTaken()
    const waiting = ours.acquire('k', { ttlMs: LONG_MS, waitMs: 15_000 })
    await sleep(500)
    stand.proxies[0]?.heal()
    stand.proxies[0]?.reset()
    await stand.inspectors[2]?.del('lock:k')
    const lease = await waiting
    expect(lease.isHeld).toBe(true)
    await lease.release()
  })
})

describe('a node that comes back empty', () => {
  const TTL_MS = 2500
  const SHORT = { maxTtlMs: TTL_MS } as const

  async function untilVotes(place: number): Promise<void> {
    const redis = stand.inspectors[place]
    await until(
      async () =>
        (await redis?.get('lock:#hf:marker').catch(() => null))?.startsWith('hfm1:v:') ?? false,
      'the node votes again',
    )
  }

  // B045: renewals lengthened what was there, so a majority shrank node by node.
  it('has the lease again before the next one is restarted, and no rival has it meanwhile', async () => {
    const locks = await warmed({ queues: true, options: SHORT })
    const rivals = await warmed({ queues: true, options: SHORT })
    const lease = await locks.acquire('k', { ttlMs: TTL_MS })
    let isOver = false
    let grants = 0
    const rival = async (): Promise<void> => {
      while (!isOver) {
        const got = await rivals.tryAcquire('k', { ttlMs: TTL_MS }).catch(() => null)
        if (got !== null) grants += 1
        await sleep(20)
      }
    }
    const trying = rival()
    for (const place of [0, 1]) {
      await stand.servers[place]?.restart()
      await untilVotes(place)
      // The rival's attempts are there too, each for a moment.
      const ours = lease.fencingToken.toString()
      const stands = async () =>
        (await valuesOf('k'))[place]?.split(':')[2]?.endsWith(ours) ?? false
      await until(stands, 'a renewal has put the entry back')
    }
    await sleep(TTL_MS)
    expect([lease.isHeld, grants]).toEqual([true, 0])
    isOver = true
    await trying
    expect(await lease.release()).toBe('released')
  })

  // B046: A had a and b; b forgot it, and c, which was down, knew nothing either.
  it('makes no majority with one that was away, before the lease is over', async () => {
    const locks = await warmed({ queues: true, options: SHORT })
    const rivals = await warmed({ queues: true, options: SHORT })
    await stand.servers[2]?.kill()
    const lease = await locks.acquire('k', { ttlMs: TTL_MS, renew: false })
    await Promise.all([stand.servers[1]?.restart(), stand.servers[2]?.restart()])
    const trying = async () => rivals.tryAcquire('k', { ttlMs: TTL_MS }).catch(() => null)
    let next = await trying()
    let refusals = 0
    while (next === null && refusals < 1000) {
      refusals += 1
      await sleep(20)
      next = await trying()
    }
    expect(next?.fencingToken).toBeGreaterThan(lease.fencingToken)
    expect(lease.isHeld).toBe(false)
    expect(refusals).toBeGreaterThan(10)
    await next?.release()
  })
})

// B050: everything arrived as one quorum error, and callers read messages.
describe('the error of a call', () => {
  it('is busy while another holds the name, at once and after a wait', async () => {
    const rival = await warmed()
    const ours = await warmed()
    const lease = await rival.acquire('k', { ttlMs: LONG_MS, label: 'nightly' })
    for (const waitMs of [0, 300]) {
      const error = await failureOf(ours.acquire('k', { ttlMs: LONG_MS, waitMs }))
      expect(error).toMatchObject({ code: 'LOCK_HELD', lockName: 'k' })
      expect(error).toMatchObject({ holder: { label: 'nightly' } })
      // Two say so, which decides it.
      expect(reasonsOf(error).filter((reason) => reason === 'held').length).toBeGreaterThan(1)
    }
    await lease.release()
  })

  it('is the caller’s reason when it aborts', async () => {
    const rival = await warmed()
    const ours = await warmed()
    const lease = await rival.acquire('k', { ttlMs: LONG_MS })
    const aborter = new AbortController()
    const waiting = failureOf(ours.acquire('k', { ttlMs: LONG_MS, signal: aborter.signal }))
    await sleep(100)
    const reason = new Error('mine')
    aborter.abort(reason)
    expect(await waiting).toBe(reason)
    await lease.release()
    await untilGone('k')
  })

  it.each([[[0, 1, 2]], [[0, 2]]])(
    'is unavailable when the nodes %j are away, with the reason of each',
    async (places) => {
      const locks = await warmed({ proxied: true })
      for (const place of places) {
        const proxy = stand.proxies[place]
        if (proxy !== undefined) proxy.isRefusing = true
        proxy?.reset()
      }
      await sleep(100)
      const error = await failureOf(locks.acquire('k', { ttlMs: LONG_MS, waitMs: 0 }))
      expect(error.code).toBe('BACKEND_UNAVAILABLE')
      expect(error).toMatchObject({ why: 'down' })
      expect(reasonsOf(error).filter((reason) => reason === 'down')).toHaveLength(2)
      // Two of them decide it, before the third is heard.
      for (const [place, reason] of reasonsOf(error).entries()) {
        expect(places.includes(place) ? ['down', UNHEARD] : ['granted', UNHEARD]).toContain(reason)
      }
      for (const proxy of stand.proxies) proxy.heal()
      await untilGone('k')
    },
  )

  it('is a missing right where two of three do not know the user any more', async () => {
    const locks = await warmed({ queues: true })
    for (const redis of stand.inspectors.slice(0, 2)) {
      await redis.call('ACL', 'SETUSER', 'default', '-@all', '+acl')
    }
    try {
      const error = await failureOf(locks.acquire('k', { ttlMs: LONG_MS, waitMs: 0 }))
      expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' })
      expect(reasonsOf(error).slice(0, 2)).toEqual(['no-permission', 'no-permission'])
      expect(['granted', UNHEARD]).toContain(reasonsOf(error)[2])
    } finally {
      for (const redis of stand.inspectors.slice(0, 2)) {
        await redis.call('ACL', 'SETUSER', 'default', '+@all')
      }
    }
    await untilGone('k')
  })
})

// B086.
describe.each([180_000, -180_000])('a host whose clock is %i ms off', (skewMs) => {
  const skewed: Seams = { ...systemSeams, wallMs: () => systemSeams.wallMs() + skewMs }

  it('takes nobody’s lease, and draws tokens by the clocks of the nodes', async () => {
    const right = await warmed()
    const wrong = await warmed({ seams: skewed })
    const lease = await right.acquire('k', { ttlMs: LONG_MS })
    expect(await wrong.tryAcquire('k', { ttlMs: LONG_MS })).toBeNull()
    await lease.release()
    const second = await wrong.acquire('k', { ttlMs: LONG_MS, waitMs: 5000 })
    expect(second.fencingToken).toBeGreaterThan(lease.fencingToken)
    // A minute is what a node believes.
    expect(Number(second.fencingToken) / 1000).toBeLessThan(Date.now() + 60_000)
    expect(second.remainingMs()).toBeGreaterThan(LONG_MS / 2)
    expect(await right.tryAcquire('k', { ttlMs: LONG_MS })).toBeNull()
    await second.release()
    const third = await right.acquire('k', { ttlMs: LONG_MS, waitMs: 5000 })
    expect(third.fencingToken).toBeGreaterThan(second.fencingToken)
    await third.release()
  })
})

describe('a wait that is over', () => {
  // B038: the deadline was looked at between attempts only, and a success that came later was kept.
  it('ends at its own time, and a majority that grants later is taken back', async () => {
    const locks = await warmed({ proxied: true, options: { nodeTimeoutMs: 10_000 } })
    // A script that a node does not know takes two answers.
    for (const redis of stand.inspectors) await redis.script('LOAD', CANCEL.lua)
    for (const proxy of stand.proxies) proxy.hold('toClient')
    const failure = await failureOf(locks.acquire('k', { ttlMs: LONG_MS, waitMs: 100 }))
    expect(failure.code).toMatch(/^(OUTCOME_UNKNOWN|BACKEND_UNAVAILABLE)$/)
    // Before any answer can have come.
    await untilGone('k')
    // What its answers have to say changes nothing.
    for (const proxy of stand.proxies) proxy.letGo('toClient')
    await sleep(500)
    expect((await valuesOf('k')).map((value) => value ?? null)).toEqual([null, null, null])
  })

  it('ends at its own time while another holds the name', async () => {
    const rival = await warmed()
    const ours = await warmed()
    const lease = await rival.acquire('k', { ttlMs: LONG_MS })
    setTimeout(() => lease.release().catch(() => undefined), 2500)
    const startMs = performance.now()
    const failure = await failureOf(ours.acquire('k', { ttlMs: LONG_MS, waitMs: 100 }))
    expect(failure).toMatchObject({ code: 'LOCK_HELD' })
    expect(performance.now() - startMs).toBeLessThan(2000)
    await untilGone('k')
    await sleep(500)
    expect((await valuesOf('k')).map((value) => value ?? null)).toEqual([null, null, null])
  })
})

describe('an abort', () => {
  // B039: the release was sent with the caller's signal, which was aborted.
  it('inside the work leaves nothing on any node', async () => {
    const locks = await warmed()
    const aborter = new AbortController()
    const { signal } = aborter
    const work = locks.using('k', { ttlMs: LONG_MS, signal }, async () => {
      aborter.abort(new Error('enough'))
      throw signal.reason
    })
    expect(await failureOf(work)).toBe(signal.reason)
    await untilGone('k')
  })

  // B040.
  it('that races the grant leaves nothing on any node', async () => {
    const locks = await warmed()
    for (let round = 0; round < 50; round++) {
      const aborter = new AbortController()
      const asking = locks.acquire('k', { ttlMs: LONG_MS, signal: aborter.signal })
      const outcome = asking.then(
        async (lease) => lease.release(),
        (error: unknown) => error,
      )
      if (round % 3 === 1) await Promise.resolve()
      if (round % 3 === 2) await sleep(1)
      aborter.abort(new Error('raced'))
      await outcome
    }
    await untilGone('k')
    for (const redis of stand.inspectors) {
      const left = (await allKeys(redis)).filter((key) => !key.includes('#hf:'))
      expect(left).toEqual([])
    }
  })
})
