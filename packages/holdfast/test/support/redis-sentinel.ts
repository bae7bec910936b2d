/** The clients that follow Sentinels, one way to open each, and a cut between primary and replicas. */
import { Redis } from 'ioredis'
import { Redis as Redis5 } from 'ioredis5'
import { createSentinel } from 'redis'
import { createSentinel as createSentinel5 } from 'redis5'
import { type RedisSentinels, startRedisSentinels } from '../../../cli/src/lab/servers/index.ts'
import { CAREFUL, type ClientName, type OpenClient, openInspector, until } from './redis.ts'

const REPLICATOR = 'replicator'
const PASSWORD = 'secret'

/** Replicas copy by a user of their own, so that {@link cutReplicas} can end it. */
export const REPLICATOR_ARGS: readonly string[] = [
  ...['--user', REPLICATOR, 'on', `>${PASSWORD}`, '+psync', '+replconf', '+ping'],
  ...['--masteruser', REPLICATOR, '--masterauth', PASSWORD],
]

export function startGroup(): Promise<RedisSentinels> {
  return startRedisSentinels({ args: REPLICATOR_ARGS })
}

/** From now on the replicas of a primary get nothing more: what is written next is on it alone. */
export async function cutReplicas(primaryPort: number): Promise<void> {
  const inspector = await openInspector(primaryPort)
  await inspector.call('ACL', 'DELUSER', REPLICATOR)
  await until(
    async () => /connected_slaves:0/.test(await inspector.info('replication')),
    'the replicas are cut off',
  )
  inspector.disconnect()
}

/** Resolves when it is connected. Its errors are listened to. */
export async function openFollower(name: ClientName, group: RedisSentinels): Promise<OpenClient> {
  const sentinels = group.sentinels.map(({ port }) => ({ host: '127.0.0.1', port }))
  if (name.startsWith('ioredis')) {
    const options = { ...CAREFUL, sentinels, name: group.groupName }
    const client = name === 'ioredis 5' ? new Redis5(options) : new Redis(options)
    client.on('error', () => undefined)
    await until(() => client.status === 'ready', 'the client is connected')
    return { client, end: () => client.disconnect() }
  }
  const options = {
    name: group.groupName,
    sentinelRootNodes: sentinels,
    nodeClientOptions: { disableOfflineQueue: true },
  }
  const client = name === 'node-redis 5' ? createSentinel5(options) : createSentinel(options)
  client.on('error', () => undefined)
  await client.connect()
  return { client, end: () => (client.isOpen ? client.destroy() : undefined) }
}
