import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import {
  type RedisCluster,
  type RedisClusterOptions,
  startRedisCluster,
} from '../../src/lab/servers/index.ts'
import { askRedis, isGone } from './helpers.ts'

const started: RedisCluster[] = []

async function start(options?: RedisClusterOptions): Promise<RedisCluster> {
  const cluster = await startRedisCluster(options)
  started.push(cluster)
  return cluster
}

afterEach(async () => {
  for (const cluster of started.splice(0)) await cluster.stop()
})

describe('a private Redis Cluster', () => {
  // A test of failover on a cluster that is not whole yet loses slots for good.
  it('goes on without a primary that dies, with the data that its replica has', async () => {
    const { nodes } = await start({ nodeTimeoutMs: 2000 })
    expect(new Set(nodes.map(({ port }) => port)).size).toBe(6)
    const [, primary, , , replica] = nodes
    // Of the middle third of the slots.
    expect(await askRedis(primary?.port ?? 0, 'CLUSTER KEYSLOT {lock:a}')).toBe(':6035')
    expect(await askRedis(primary?.port ?? 0, 'SET {lock:a} yes')).toBe('+OK')
    expect(await askRedis(primary?.port ?? 0, 'WAIT 1 30000')).toBe(':1')

    await primary?.kill()
    const giveUpAtMs = performance.now() + 40_000
    const isPromoted = async (): Promise<boolean> =>
      (await askRedis(replica?.port ?? 0, 'SET {lock:a}2 yes')) === '+OK'
    while (!(await isPromoted()) && performance.now() < giveUpAtMs) await sleep(50)

    expect(await askRedis(replica?.port ?? 0, 'GET {lock:a}')).toBe('$3\r\nyes')
  })

  // On a machine that was busy for two seconds a replica took over in the middle of a test.
  it('keeps its primaries while one of them is silent for a while', async () => {
    const { nodes } = await start()
    const [, primary, , , replica] = nodes
    primary?.freeze()
    await sleep(6000)
    primary?.thaw()
    expect(await askRedis(primary?.port ?? 0, 'SET {lock:a} yes')).toBe('+OK')
    expect(await askRedis(replica?.port ?? 0, 'INFO replication')).toContain('role:slave')
  })

  it('is gone after stop, with all its folders, also when stopped twice', async () => {
    const cluster = await start()
    const pids = cluster.nodes.map(({ pid }) => pid)

    await cluster.stop()
    await cluster.stop()

    expect(pids.filter((pid) => !isGone(pid))).toEqual([])
    expect(cluster.nodes.filter(({ folder }) => existsSync(folder))).toEqual([])
  })
})
