import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { BackendUnavailableError } from '../../src/core/errors.ts'
import type { Warning } from '../../src/core/events.ts'
import type { Lease, Locks } from '../../src/core/lease.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { CLIENT_NAMES, until } from '../support/redis.ts'
import { standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
/** Far more than an answer takes, far less than a silent node is waited for. */
const SOON_MS = 400
const TTL_MS = 20_000

async function timed<T>(work: () => Promise<T>): Promise<readonly [result: T, elapsedMs: number]> {
  const startMs = performance.now()
  const result = await work()
  return [result, performance.now() - startMs]
}

/** The median of some rounds: other load makes single ones slow. */
async function roundMs(locks: Locks, rounds = 9): Promise<number> {
  const all: number[] = []
  for (let round = 0; round < rounds; round++) {
    const [, elapsedMs] = await timed(async () => {
      const lease = await locks.acquire(`round ${round}`, { ttlMs: TTL_MS })
      await lease.release()
    })
    all.push(elapsedMs)
  }
  return all.sort((a, b) => a - b)[Math.floor(rounds / 2)] ?? 0
}

/** ioredis keeps what it has sent, and what waits for a connection, in queues of its own. */
function unansweredBy(client: unknown): number {
  const { commandQueue, offlineQueue } = client as Record<string, { length: number } | undefined>
  return (commandQueue?.length ?? 0) + (offlineQueue?.length ?? 0)
}

describe.each(CLIENT_NAMES)('one node of three is stopped, %s:', (name) => {
  // B047. The accident: one dead node adds its whole time-out to every acquire and release.
  it('nobody waits for it, and it is back in use soon after it goes on', async () => {
    const locks = await stand.locks({ name, queues: true })
    const warnings: Warning[] = []
    locks.on('warning', (warning) => warnings.push(warning))
    await roundMs(locks, 1)
    stand.servers[1]?.freeze()
    expect(await roundMs(locks)).toBeLessThan(SOON_MS)
    const lease = await locks.acquire('held', { ttlMs: TTL_MS })
    stand.servers[1]?.thaw()
    const held = () => stand.inspectors[1]?.get('lock:held')
    await until(
      async () => (await held()) !== null,
      'the node has the lock that was taken meanwhile',
    )
    expect(await lease.release()).toBe('released')
    await until(async () => (await held()) === null, 'and was told of its release')
  })
})

describe('a node that is stopped', () => {
  // The accident: the client's queue grows by every request, for as long as the node hangs.
  it('has few requests unanswered after a long burst, and is told what it missed', async () => {
    const options = { nodeTimeoutMs: 3000 }
    const { backend, clients } = await stand.open({ queues: true, options })
    const locks = createLocks(backend)
    stand.ends.push(() => locks.close())
    // A node that is not known yet is asked for no vote at all.
    await roundMs(locks, 3)
    stand.servers[2]?.freeze()
    const owner = 'o'.repeat(22)
    const request = {
      ...{ ttlMs: TTL_MS, timeoutMs: 2000, lockDelayMs: 0, waits: false, waiter: 'w'.repeat(22) },
      ...{ holder: { host: 'test', pid: 1 }, onLost: () => undefined },
    }
    let most = 0
    for (let turn = 0; turn < 50; turn++) {
      const burst = Array.from({ length: 100 }, async (_, index) => {
        const lockName = `${turn}:${index}`
        const own = `${lockName}${owner}`.slice(0, 22)
        const result = await backend.tryAcquire({ ...request, lockName, owner: own })
        if (result.kind === 'granted') await backend.release(result.grant, 0)
        return result.kind
      })
      expect(new Set(await Promise.all(burst))).toEqual(new Set(['granted']))
      most = Math.max(most, unansweredBy(clients[2]))
    }
    // Eight, some probes, and what one turn may have sent before the node was found silent.
    expect(most).toBeLessThanOrEqual(8 + 4)
    stand.servers[2]?.thaw()
    const keys = async () => (await stand.inspectors[2]?.keys('lock:[0-9]*')) ?? []
    await until(async () => (await keys()).length === 0, 'nothing of the burst is left')
    await until(async () => unansweredBy(clients[2]) === 0, 'it has answered everything')
  }, 60_000)

  // A lease lives on while a quorum renews it, and the node is repaired when it is back.
  it('keeps nobody from renewing', async () => {
    const locks = await stand.locks({ queues: true }, { ttlMs: 3000 })
    await roundMs(locks, 1)
    const lease: Lease = await locks.acquire('renewed')
    stand.servers[0]?.freeze()
    await sleep(5000)
    expect(lease.signal.aborted).toBe(false)
    stand.servers[0]?.thaw()
    const has = async () => (await stand.inspectors[0]?.pttl('lock:renewed')) ?? -2
    await until(async () => (await has()) > 0, 'the node has the lease again')
    expect(await lease.release()).toBe('released')
    await until(async () => (await has()) === -2, 'the repaired node is told of the release')
  }, 30_000)
})

describe('two nodes of three that are stopped', () => {
  it('make every call fail with the vote of each node, and soon', async () => {
    const { backend } = await stand.open()
    const locks = createLocks(backend)
    stand.ends.push(() => locks.close())
    await roundMs(locks, 1)
    stand.servers[0]?.freeze()
    stand.servers[1]?.freeze()
    const lockName = 'nobody’s'
    const request = {
      ...{ lockName, owner: 'q'.repeat(22), ttlMs: TTL_MS, timeoutMs: 2000, lockDelayMs: 0 },
      ...{ waits: false, waiter: 'w'.repeat(22), holder: { host: 'test', pid: 1 } },
      onLost: () => undefined,
    }
    const error = await backend.tryAcquire(request).catch((failure: unknown) => failure)
    expect(error).toBeInstanceOf(BackendUnavailableError)
    expect((error as BackendUnavailableError).message).not.toContain('q'.repeat(22))
    const { votes = [] } = error as BackendUnavailableError
    const answers = votes.map(({ node, answer }) => `${node} ${answer}`)
    expect(answers).toEqual(['a failed', 'b failed', 'c granted'])
    for (const { elapsedMs } of votes) expect(elapsedMs).toBeGreaterThanOrEqual(0)
    stand.servers[0]?.thaw()
    stand.servers[1]?.thaw()
    const left = () =>
      Promise.all(stand.inspectors.map((redis) => redis.exists(`lock:${lockName}`)))
    await until(
      async () => (await left()).every((count) => count === 0),
      'nothing is left anywhere',
    )
  })
})
