/**
 * A Redis with replicas, watched by Sentinels that promote one of them when it is gone.
 *
 * It is ready when every Sentinel knows every replica and every other Sentinel: before that a
 * failover has no votes, or nobody to promote.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findPrograms } from './find-programs.ts'
import { findFreePort } from './ports.ts'
import { PrivateServer } from './private-server.ts'
import { answersItself, call, type RedisServer, startRedisServer } from './redis.ts'
import { type Server, ServerProcess, ServerStartError } from './server-process.ts'

export interface RedisSentinels {
  /** The name under which the Sentinels know the group. */
  readonly groupName: string
  /** The first one begins as the primary. */
  readonly nodes: readonly RedisServer[]
  readonly sentinels: readonly Server[]
  /** The node that the Sentinels name as the primary at present. */
  primary(): Promise<RedisServer>
  /** Ends all of them and removes their folders. Calling twice is safe. */
  stop(): Promise<void>
}

export interface RedisSentinelsOptions {
  /** Further arguments of each redis-server. */
  readonly args?: readonly string[]
}

const GROUP_NAME = 'locks'
const REPLICA_COUNT = 2
const SENTINEL_COUNT = 3
const QUORUM = 2
/** After this long without an answer a Sentinel takes a node for dead: the least that is safe here. */
const DOWN_AFTER_MS = 1_000
/** A failover that found no majority is tried again after twice this. */
const FAILOVER_MS_MAX = 4_000
const READY_MS_MAX = 60_000
const POLL_MS = 50
const CALL_MS_MAX = 1_000
const STOP_GRACE_MS = 5_000
const PORT_TRIES = 10

/** Resolves when a failover would succeed. What was started ends also when this rejects. */
export async function startSentinelGroup(
  options: RedisSentinelsOptions = {},
): Promise<RedisSentinels> {
  const nodes: RedisServer[] = []
  const sentinels: Sentinel[] = []
  const stop = async (): Promise<void> => {
    // Sentinels first: they would otherwise see the nodes go, one by one, and promote.
    for (const server of [...sentinels, ...nodes]) await server.stop()
  }
  // The default delay before a first synchronisation is 5 s; an end waits for no replica.
  const common = ['--repl-diskless-sync-delay', '0', '--shutdown-timeout', '0']
  common.push(...(options.args ?? []))
  try {
    const first = await startRedisServer({ args: common })
    nodes.push(first)
    for (let count = 0; count < REPLICA_COUNT; count++) {
      const args = [...common, '--replicaof', '127.0.0.1', `${first.port}`]
      nodes.push(await startRedisServer({ args }))
    }
    for (let count = 0; count < SENTINEL_COUNT; count++) {
      sentinels.push(await startSentinel(first.port))
    }
    await untilAllKnown(sentinels)
  } catch (error) {
    await stop()
    throw error
  }
  return {
    groupName: GROUP_NAME,
    nodes,
    sentinels,
    stop,
    primary: () => primaryOf(sentinels, nodes),
  }
}

async function primaryOf(
  sentinels: readonly Sentinel[],
  nodes: readonly RedisServer[],
): Promise<RedisServer> {
  const port = await sentinels[0]?.primaryPort()
  const node = nodes.find((candidate) => candidate.port === port)
  if (node === undefined) throw new Error(`the Sentinels name port ${port}, which is none of ours`)
  return node
}

/** @throws when it takes longer than a minute. */
async function untilAllKnown(sentinels: readonly Sentinel[]): Promise<void> {
  const giveUpAtMs = performance.now() + READY_MS_MAX
  while (performance.now() < giveUpAtMs) {
    const known = await Promise.all(sentinels.map((sentinel) => sentinel.knowsAll()))
    if (known.every((knowsAll) => knowsAll)) return
    await sleep(POLL_MS)
  }
  throw new Error(`the Sentinels did not find each other and the replicas in ${READY_MS_MAX} ms`)
}

async function startSentinel(primaryPort: number): Promise<Sentinel> {
  for (let tryNumber = 1; ; tryNumber++) {
    const sentinel = new Sentinel(await findFreePort(), primaryPort)
    try {
      await sentinel.start()
      return sentinel
    } catch (error) {
      await sentinel.stop()
      const isPortTaken = error instanceof ServerStartError && error.isPortTaken
      if (!isPortTaken || tryNumber === PORT_TRIES) throw error
    }
  }
}

class Sentinel extends PrivateServer {
  readonly name: string
  readonly port: number
  readonly #primaryPort: number

  constructor(port: number, primaryPort: number) {
    super('sentinel', 'SIGTERM', STOP_GRACE_MS)
    this.name = `redis-sentinel ${port}`
    this.port = port
    this.#primaryPort = primaryPort
  }

  async start(): Promise<void> {
    const { port, folder } = this
    // In a file that it may write: a Sentinel keeps there what it has learned.
    const path = join(folder, 'sentinel.conf')
    const settings = [
      `port ${port}`,
      'bind 127.0.0.1',
      'protected-mode no',
      `dir ${folder}`,
      `sentinel monitor ${GROUP_NAME} 127.0.0.1 ${this.#primaryPort} ${QUORUM}`,
      `sentinel down-after-milliseconds ${GROUP_NAME} ${DOWN_AFTER_MS}`,
      `sentinel failover-timeout ${GROUP_NAME} ${FAILOVER_MS_MAX}`,
      `sentinel parallel-syncs ${GROUP_NAME} ${REPLICA_COUNT}`,
    ]
    writeFileSync(path, `${settings.join('\n')}\n`)
    const started = new ServerProcess({
      name: this.name,
      programs: findPrograms('redis'),
      program: 'redis-server',
      args: [path, '--sentinel'],
      folder,
      endSignal: 'SIGKILL',
    })
    this.process = started
    await started.waitUntilReady(() => answersItself(port, started.pid))
  }

  /** Whether it knows every replica and every other Sentinel. */
  async knowsAll(): Promise<boolean> {
    const isWhole = (text: string): boolean => text.includes(`name=${GROUP_NAME}`)
    const text = await call(this.port, 'INFO sentinel\r\n', CALL_MS_MAX, isWhole).catch(() => '')
    return (
      text.includes(`status=ok`) &&
      text.includes(`slaves=${REPLICA_COUNT},sentinels=${SENTINEL_COUNT}`)
    )
  }

  async primaryPort(): Promise<number> {
    const asked = `SENTINEL GET-MASTER-ADDR-BY-NAME ${GROUP_NAME}\r\n`
    const answer = /\$9\r\n127\.0\.0\.1\r\n\$\d+\r\n(\d+)\r\n/
    const text = await call(this.port, asked, CALL_MS_MAX, (reply) => answer.test(reply))
    return Number(answer.exec(text)?.[1])
  }
}
