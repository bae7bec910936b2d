/** Settings of a user's Redis client that make lost or orphaned locks likely, as warnings. */
import type { Warning } from '../core/events.ts'
import type { RedisClient, RedisFamily } from './redis.ts'

interface Rule {
  readonly option: string
  /** What it should be. Whatever else it is, the warning tells. */
  readonly wanted: unknown
  readonly because: string
}

const RULES: Readonly<Record<RedisFamily, readonly Rule[]>> = {
  ioredis: [
    {
      option: 'enableOfflineQueue',
      wanted: false,
      because:
        'with the queue, a request that its caller gave up is still sent after the reconnect',
    },
    {
      option: 'autoResendUnfulfilledCommands',
      wanted: false,
      because: 'a request that was sent before the connection ended is sent again after it',
    },
    {
      option: 'maxRetriesPerRequest',
      wanted: 0,
      because:
        'otherwise a request under way when the connection ends has no answer until later ' +
        'reconnects, or, without resending, never',
    },
  ],
  'node-redis': [
    {
      option: 'disableOfflineQueue',
      wanted: true,
      because:
        'with the queue, a request that its caller gave up is still sent after the reconnect',
    },
  ],
}

/** Of a client of Sentinels that reads from replicas. */
const ROLE: Rule = {
  option: 'role',
  wanted: 'master',
  because: 'a replica takes no writes, and every change of a lock is one',
}

/** Of a cluster client of ioredis; one of node-redis keeps its options to itself. */
const CLUSTER_RULES: readonly Rule[] = [
  {
    option: 'retryDelayOnFailover',
    wanted: 0,
    because: 'otherwise a request whose node was lost is sent again, to any node',
  },
  {
    option: 'retryDelayOnClusterDown',
    wanted: 0,
    because: 'otherwise a request that was refused for sure may end without an answer',
  },
]

/** One warning for each option that is not as it should be; none where options cannot be read. */
export function clientOptionWarnings(client: RedisClient, family: RedisFamily): Warning[] {
  const { options, isCluster } = client as { options?: unknown; isCluster?: unknown }
  if (typeof options !== 'object' || options === null) return []
  const given = options as Record<string, unknown>
  const ofClient = isCluster === true ? CLUSTER_RULES : RULES[family]
  const rules = given['role'] === 'slave' ? [...ofClient, ROLE] : ofClient
  return rules.flatMap(({ option, wanted, because }) => {
    const value = given[option]
    if (value === wanted) return []
    const advice = `set ${option}: ${JSON.stringify(wanted)} on the client that you pass; ${because}`
    return [{ code: 'client-option', advice, option, value } as const]
  })
}
