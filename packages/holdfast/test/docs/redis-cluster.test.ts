import { Redis } from 'ioredis'
import { expect, it, onTestFinished } from 'vitest'
import { startRedis } from '../../../cli/src/lab/servers/index.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { redisBackend } from '../../src/redis.ts'
import { openInspector, until } from '../support/redis.ts'

// The accident: a client of one node of a cluster works for some names and not for others. It is
// refused for all, in words, as docs/backends/redis.md says.
it('a client of one node is refused by a cluster, and writes nothing to it', async () => {
  const server = await startRedis({ args: ['--cluster-enabled', 'yes'] })
  onTestFinished(() => server.stop())
  const inspector = await openInspector(server.port)
  await inspector.cluster('ADDSLOTSRANGE', 0, 16_383)
  const isServing = async (): Promise<boolean> =>
    String(await inspector.cluster('INFO')).includes('cluster_state:ok')
  await until(isServing, 'one node serves all slots')

  const client = new Redis(server.port, '127.0.0.1')
  const locks = createLocks(redisBackend(client))
  for (const lockName of ['a', 'wallet:42', '{tag}', 'report:daily']) {
    await expect(locks.tryAcquire(lockName)).rejects.toMatchObject({
      code: 'BACKEND_UNAVAILABLE',
      why: 'down',
      message: expect.stringContaining('cluster'),
    })
  }
  expect(await inspector.dbsize()).toBe(0)
  await locks.close()
  client.disconnect()
  inspector.disconnect()
})
