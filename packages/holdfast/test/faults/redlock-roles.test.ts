import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type RedisSentinels, startRedisSentinels } from '../../../cli/src/lab/servers/index.ts'
import type { LockError } from '../../src/core/errors.ts'
import type { Warning } from '../../src/core/events.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { type RedlockNode, redlockBackend } from '../../src/redlock.ts'
import { CLIENT_NAMES, openClient } from '../support/redis.ts'
import { standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
let group: RedisSentinels

beforeAll(async () => {
  group = await startRedisSentinels()
})
afterAll(() => group.stop())

// B049: the port of a Sentinel was given for that of its Redis, and the answer, "unknown command", was
// counted as a vote against: busy, and asked again until the time was over.
describe.each(CLIENT_NAMES)('a Sentinel given for a node, by %s,', (name) => {
  async function nodesAt(
    ports: readonly (number | undefined)[],
  ): Promise<Record<string, RedlockNode>> {
    const nodes: Record<string, RedlockNode> = {}
    for (const [place, port = 0] of ports.entries()) {
      const { client, end } = await openClient(name, port)
      stand.ends.push(end)
      nodes['abc'[place] ?? ''] = { client, subscriber: false }
    }
    return nodes
  }

  async function failureAt(ports: readonly (number | undefined)[]): Promise<[LockError, number]> {
    const locks = createLocks(redlockBackend(await nodesAt(ports), { onEmpty: 'fresh' }))
    stand.ends.push(() => locks.close())
    const beganAtMs = performance.now()
    const error = await locks.acquire('k', { waitMs: 20_000 }).then(
      () => {
        throw new Error('it was granted')
      },
      (failure: LockError) => failure,
    )
    return [error, performance.now() - beganAtMs]
  }

  it('is named by the first error, and not asked again as if somebody held the lock', async () => {
    const ports = group.sentinels.map(({ port }) => port)
    const [error, elapsedMs] = await failureAt([stand.servers[0]?.port, ports[0], ports[1]])
    expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE' })
    for (const node of ['"b"', '"c"']) {
      expect(error.message).toMatch(new RegExp(`${node}[^;]*it is a Sentinel`))
    }
    expect(elapsedMs).toBeLessThan(10_000)
  })

  it('is named by a warning where the others suffice', async () => {
    const [a, b, c] = stand.servers.map(({ port }) => port)
    const before = createLocks(redlockBackend(await nodesAt([a, b, c]), { onEmpty: 'fresh' }))
    await (await before.acquire('k')).release()
    await before.close()
    const nodes = await nodesAt([a, b, group.sentinels[0]?.port])
    const locks = createLocks(redlockBackend(nodes, { onEmpty: 'fresh' }))
    stand.ends.push(() => locks.close())
    const warnings: Warning[] = []
    locks.on('warning', (warning) => warnings.push(warning))
    for (let round = 0; round < 3; round++) await (await locks.acquire('k')).release()
    const named = warnings.filter(({ option }) => option === 'nodes.c')
    expect(named).toHaveLength(1)
    expect(named[0]?.advice).toContain('it is a Sentinel')
  })
})
