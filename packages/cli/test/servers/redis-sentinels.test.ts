import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { type RedisSentinels, startRedisSentinels } from '../../src/lab/servers/index.ts'
import { askRedis, isGone } from './helpers.ts'

const started: RedisSentinels[] = []

async function start(): Promise<RedisSentinels> {
  const group = await startRedisSentinels()
  started.push(group)
  return group
}

afterEach(async () => {
  for (const group of started.splice(0)) await group.stop()
})

describe('a Redis under Sentinels', () => {
  // A failover test on a group that is not whole yet waits for votes that never come.
  it('promotes a replica that has the data when the primary dies', async () => {
    const group = await start()
    const before = await group.primary()
    expect(before).toBe(group.nodes[0])
    await askRedis(before.port, 'SET kept yes')
    expect(await askRedis(before.port, 'WAIT 2 30000')).toBe(':2')

    await before.kill()
    const giveUpAtMs = performance.now() + 40_000
    while ((await group.primary()) === before && performance.now() < giveUpAtMs) await sleep(50)

    const after = await group.primary()
    expect(after).not.toBe(before)
    expect(await askRedis(after.port, 'GET kept')).toBe('$3\r\nyes')
    expect(await askRedis(after.port, 'SET more yes')).toBe('+OK')
  })

  it('is gone after stop, with all its folders, also when stopped twice', async () => {
    const group = await start()
    const servers = [...group.nodes, ...group.sentinels]
    expect(servers).toHaveLength(6)
    const pids = servers.map(({ pid }) => pid)
    expect(new Set(pids).size).toBe(6)

    await group.stop()
    await group.stop()

    expect(pids.filter((pid) => !isGone(pid))).toEqual([])
    expect(servers.filter(({ folder }) => existsSync(folder))).toEqual([])
  })
})
