/** Several private Redis servers, the nodes of a Redlock, and programs that see to it that they vote. */
import type { Redis } from 'ioredis'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import {
  type AdmissionRules,
  AdmissionTable,
  type Outlook,
} from '../../src/backends/redlock/admission-table.ts'
import { setIdOf } from '../../src/backends/redlock/marker.ts'
import { askerOf } from '../../src/backends/redlock/operating.ts'
import { readNodes } from '../../src/backends/redlock/options.ts'
import type { SightKind } from '../../src/backends/redlock/sight.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import type { RedisClient } from '../../src/redis.ts'
import { stripeKeys } from '../../src/wire/keys.ts'
import { openClient, openInspector, until } from './redis.ts'

export const LONGEST_MS = 10_000
/** 1 % more for clocks of another rate, and 100 ms. */
export const WAIT_MS = 10_200
const PREFIX = 'lock:'
export const MARKER = `${PREFIX}#hf:marker`

/** One server under the name that it has as a node. */
export interface TestNode {
  readonly server: RedisServer
  readonly redis: Redis
  readonly client: RedisClient
  marker(): Promise<string | null>
  /** Of every stripe, 0 for one that is missing. */
  counters(): Promise<bigint[]>
  setCounters(token: bigint): Promise<void>
  /** Ends when the client for the nodes is connected again. */
  restart(options?: { keepData?: boolean }): Promise<void>
  reconnected(): Promise<void>
  /** By SIGKILL, until `restart`. */
  kill(): Promise<void>
  isDown(): boolean
}

/** A program on the clock of the test: its waits are over when the test says so. */
export interface Program {
  readonly table: AdmissionTable
  nowMs: number
  /** What each node is after a pass, in the order of the names. */
  pass(): Promise<SightKind[]>
  outlook(): Promise<Outlook>
}

export type Rules = Partial<Omit<AdmissionRules, 'names' | 'setId'>> & {
  readonly durable?: boolean
  readonly wallMs?: () => number
}

export interface NodesStand {
  readonly nodes: Readonly<Record<string, TestNode>>
  /** @param names Of its set; the nodes of these names. */
  program(names: string, rules?: Rules): Program
  clients(
    names: string,
    durable?: boolean,
  ): Record<string, { client: RedisClient; durable: boolean }>
  /** Every key and value of all nodes but what time changes. */
  dump(): Promise<string>
}

/** @param names One letter for each node. Registers hooks; every test begins with empty nodes. */
export function standOnNodes(names: string, args: readonly string[] = []): NodesStand {
  const nodes: Record<string, TestNode> = {}
  const ends: (() => unknown)[] = []
  beforeAll(async () => {
    const made = await Promise.all([...names].map(() => openNode(args, ends)))
    for (const [place, node] of made.entries()) nodes[names[place] ?? ''] = node
  })
  afterEach(async () => {
    for (const { server, redis, isDown } of Object.values(nodes)) {
      if (isDown()) await server.restart()
      await until(() => redis.status === 'ready', 'the inspector is connected')
      await redis.call('REPLICAOF', 'NO', 'ONE')
      await redis.flushall()
    }
    for (const node of Object.values(nodes)) await node.reconnected()
  })
  afterAll(async () => {
    for (const end of ends.splice(0).reverse()) await end()
  })
  const clients: NodesStand['clients'] = (chosen, durable = false) =>
    Object.fromEntries(
      [...chosen].map((name) => [name, { client: nodes[name]?.client as RedisClient, durable }]),
    )
  return {
    nodes,
    clients,
    program: (chosen, { durable = false, wallMs, ...rules } = {}) => {
      const settings = readNodes(clients(chosen, durable))
      const sorted = settings.map(({ name }) => name)
      const seams: Seams = {
        ...systemSeams,
        ...(wallMs === undefined ? {} : { wallMs }),
        nowMs: () => program.nowMs,
      }
      const table = new AdmissionTable(
        () => seams,
        settings.map((node) => askerOf(systemSeams, node)),
        {
          ...{ keyPrefix: PREFIX, maxTtlMs: LONGEST_MS, onEmpty: 'wait', isForced: false },
          ...rules,
          ...{ names: sorted, setId: setIdOf(sorted) },
        },
      )
      const program: Program = {
        ...{ table, nowMs: 0 },
        outlook: () => table.pass(),
        pass: async () => (await table.pass()).sights.map(({ kind }) => kind),
      }
      return program
    },
    dump: async () => {
      const parts = await Promise.all(
        Object.values(nodes).map(async ({ redis }) => {
          const keys = (await redis.keys('*')).sort()
          return Promise.all(keys.map(async (key) => `${key}=${await redis.get(key)}`))
        }),
      )
      return JSON.stringify(parts)
    },
  }
}

async function openNode(args: readonly string[], ends: (() => unknown)[]): Promise<TestNode> {
  const quick = ['--repl-diskless-sync-delay', '0', '--shutdown-timeout', '0']
  const server = await startRedis({ args: [...quick, ...args] })
  ends.push(() => server.stop())
  const redis = await openInspector(server.port)
  ends.push(() => redis.disconnect())
  const opened = await openClient('ioredis 6', server.port)
  ends.push(opened.end)
  const client = opened.client as Redis
  const reconnected = (): Promise<void> =>
    until(() => client.status === 'ready', 'the client is connected again')
  const counters = stripeKeys(PREFIX)
  let isDown = false
  return {
    ...{ server, redis, client, reconnected },
    marker: () => redis.get(MARKER),
    counters: async () => (await redis.mget(counters)).map((text) => BigInt(text ?? 0)),
    setCounters: async (token) => {
      await redis.mset(counters.flatMap((key) => [key, String(token)]))
    },
    isDown: () => isDown,
    kill: async () => {
      isDown = true
      await server.kill()
      await until(() => client.status !== 'ready', 'the client has noticed')
    },
    restart: async (options) => {
      await server.restart(options)
      isDown = false
      await until(() => redis.status === 'ready', 'the inspector is connected')
      await reconnected()
    },
  }
}
