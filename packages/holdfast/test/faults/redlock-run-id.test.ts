/**
 * A server that was started anew never votes on the word of who asks: each test starts one again with
 * the data of before, the old marker among them, and looks whether it took part before it may.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type RedisServer, startRedis } from '../../../cli/src/lab/servers/index.ts'
import { defineScript, scriptsOf } from '../../src/clients/redis.ts'
import { connectWith } from '../../src/connect/connect.ts'
import { connectionOfIoredis } from '../../src/connect/ioredis.ts'
import { connectionOfNodeRedis } from '../../src/connect/node-redis.ts'
import { readRedlockTarget } from '../../src/connect/redlock-target.ts'
import { RunIdReader } from '../../src/connect/run-id.ts'
import { splitUrl } from '../../src/connect/url.ts'
import type { Locks } from '../../src/core/lease.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { onlyDriver } from '../support/connect.ts'
import { CLIENT_NAMES, type ClientName, openInspector, until } from '../support/redis.ts'

const WHO = defineScript('who', "return string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')")
const servers: RedisServer[] = []
const proxies: FaultProxy[] = []
const ends: (() => unknown)[] = []
/** Longer than any test: a node that was started again does not vote before its end. */
const LONGEST_MS = 600_000

/** What was sent to the first node, by connection. */
const sent = new Map<number, string>()

beforeAll(async () => {
  for (let node = 0; node < 3; node++) {
    const server = await startRedis()
    servers.push(server)
    const proxy = await startProxy(server.port)
    proxies.push(proxy)
  }
  const [first] = proxies
  if (first === undefined) throw new Error('there is no proxy')
  first.onBytes = (direction, bytes, { id }) => {
    if (direction !== 'toServer') return
    sent.set(id, (sent.get(id) ?? '') + Buffer.from(bytes).toString('latin1'))
  }
})

afterEach(async () => {
  for (const server of servers) server.thaw()
  for (const proxy of proxies) {
    proxy.isRefusing = false
    proxy.heal()
    proxy.reset()
  }
  for (const end of ends.splice(0).reverse()) await end()
  for (const { port } of servers) {
    const inspector = await openInspector(port)
    await inspector.flushall()
    inspector.disconnect()
  }
})

afterAll(async () => {
  for (const proxy of proxies) await proxy.close()
  for (const server of servers) await server.stop()
})

async function open(name: ClientName): Promise<Locks> {
  const hosts = proxies.map(({ port }) => `127.0.0.1:${port}`).join(',')
  const options = { onEmpty: 'fresh', maxTtlMs: LONGEST_MS } as const
  const locks = await connectWith(onlyDriver(name), `redlock://${hosts}`, options)
  ends.push(() => locks.close())
  return locks
}

async function withFirst<T>(ask: (redis: Inspector) => Promise<T>): Promise<T> {
  const inspector = await openInspector(servers[0]?.port ?? 0)
  try {
    return await ask(inspector)
  } finally {
    inspector.disconnect()
  }
}

type Inspector = Awaited<ReturnType<typeof openInspector>>

const runIdOfFirst = (): Promise<string> =>
  withFirst(async (redis) => /run_id:(\w{40})/.exec(await redis.info('server'))?.[1] ?? '')

/** The locks that the first node has. */
const locksOfFirst = (): Promise<string[]> =>
  withFirst(async (redis) =>
    (await redis.keys('lock:*')).filter((key) => !key.includes('#hf:')).sort(),
  )

/** As an argument of its own: the marker that is replaced names the old one too. */
const isIn = (text: string, runId: string): boolean => text.includes(`\r\n$40\r\n${runId}\r\n`)
const hasSent = (runId: string): boolean => [...sent.values()].some((text) => isIn(text, runId))

/** Acquires names of its own, several at once, until it is told to stop; the locks are left standing. */
function storm(locks: Locks): { stop(): Promise<number> } {
  let isOver = false
  let granted = 0
  const lane = async (own: number): Promise<void> => {
    for (let turn = 0; !isOver && turn < 100_000; turn++) {
      const asked = locks.tryAcquire(`${own}:${turn}`, { ttlMs: 60_000 })
      if ((await asked.catch(() => null)) !== null) granted += 1
      await sleep(1)
    }
  }
  const lanes = Promise.all([0, 1, 2, 3].map(lane))
  return {
    async stop() {
      isOver = true
      await lanes
      return granted
    },
  }
}

/** Starts the first server again, with its data; nobody reaches it before what it kept was read. */
async function restartFirst(): Promise<string[]> {
  const [server, proxy] = [servers[0], proxies[0]]
  if (server === undefined || proxy === undefined) throw new Error('there is no first node')
  proxy.isRefusing = true
  await server.restart({ keepData: true })
  const kept = await locksOfFirst()
  proxy.isRefusing = false
  return kept
}

async function resetOften(): Promise<void> {
  for (let turn = 0; turn < 60; turn++) {
    proxies[0]?.reset()
    await sleep(10 + (turn % 5) * 10)
  }
}

type Fault = () => Promise<string[]>

const FAULTS: readonly (readonly [title: string, fault: Fault])[] = [
  ['beside calls that never cease', restartFirst],
  [
    'while its connections are half open',
    async () => {
      proxies[0]?.hold('toClient')
      proxies[0]?.hold('toServer')
      const kept = await restartFirst()
      await sleep(300)
      proxies[0]?.letGo('toServer')
      proxies[0]?.letGo('toClient')
      proxies[0]?.heal()
      return kept
    },
  ],
  [
    'amid connections that end again and again',
    async () => {
      const resets = resetOften()
      await sleep(200)
      const kept = await restartFirst()
      await resets
      return kept
    },
  ],
]

// The accident: the run_id of a connection outlives it, and a server that has forgotten the last second
// of its data votes as the one that it was.
describe.each(CLIENT_NAMES)('%s, a server that is started again', (name) => {
  it.each(FAULTS)('%s', async (_, fault) => {
    const locks = await open(name)
    const before = await runIdOfFirst()
    await locks.acquire('first', { ttlMs: 60_000 })
    await until(async () => (await locksOfFirst()).length === 1, 'the first node votes')
    sent.clear()
    const calls = storm(locks)
    await until(() => hasSent(before), 'the run_id is sent along')
    const kept = await fault()
    const after = await runIdOfFirst()
    expect(after).not.toBe(before)
    expect(kept.length).toBeGreaterThan(0)
    // Asked again, and with the run_id of now: it had its chance to vote.
    await until(() => hasSent(after), 'the new run_id is sent along')
    await sleep(300)
    expect(await calls.stop()).toBeGreaterThan(0)
    expect(await locksOfFirst()).toEqual(kept)
    for (const text of sent.values()) {
      expect(isIn(text, before) && isIn(text, after)).toBe(false)
    }
  })
})

describe.each(CLIENT_NAMES)('%s, a connection of ours', (name) => {
  // The accident: a request leaves on the next connection with what was read on the last.
  it('tells the run_id of whoever answers, in every turn, or none', async () => {
    const [server, proxy] = [servers[0], proxies[0]]
    if (server === undefined || proxy === undefined) throw new Error('there is no first node')
    const url = splitUrl(`redlock://127.0.0.1:${proxy.port}`, ['redlock'])
    const [target] = readRedlockTarget(false, url, {}).nodes
    if (target === undefined) throw new Error('there is no node')
    const { module } = (await onlyDriver(name).load(
      name.startsWith('ioredis') ? 'ioredis' : 'redis',
    )) as { module: unknown }
    const make = name.startsWith('ioredis') ? connectionOfIoredis : connectionOfNodeRedis
    const connection = make(module, target)
    const scripts = scriptsOf(connection.client)
    const counts = { right: 0, wrong: 0, unanswered: 0, unknown: 0 }
    const answers: Promise<void>[] = []
    const ask = (): void => {
      const told = reader.runId()
      if (told === '') counts.unknown += 1
      if (told === '') return
      const answer = scripts.run(WHO, [], [], String).then(
        (reply) => {
          counts[reply === told ? 'right' : 'wrong'] += 1
        },
        () => {
          counts.unanswered += 1
        },
      )
      answers.push(answer)
    }
    // Before the reader has its turn, and after it.
    connection.listen(() => undefined, ask)
    const reader = new RunIdReader(connection)
    connection.listen(() => undefined, reader.onReady)
    ends.push(() => {
      reader.end()
      connection.end()
    })
    connection.onLost(ask)
    connection.connect().catch(() => undefined)
    await until(() => reader.runId() !== '', 'it is known')
    let isOver = false
    const asking = (async () => {
      for (let turn = 0; !isOver && turn < 100_000; turn++) {
        ask()
        await new Promise((resolve) => setImmediate(resolve))
        if (turn % 50 === 0) await sleep(1)
      }
    })()
    const seen = new Set<string>()
    for (let round = 0; round < 3; round++) {
      await until(() => reader.runId() !== '' && !seen.has(reader.runId()), 'the next one is known')
      seen.add(reader.runId())
      await sleep(100)
      proxy.reset()
      await sleep(100)
      await server.restart({ keepData: true })
    }
    await until(() => reader.runId() !== '' && !seen.has(reader.runId()), 'the last one is known')
    isOver = true
    await asking
    connection.end()
    await Promise.all(answers)
    expect(seen.size).toBe(3)
    expect(counts.right).toBeGreaterThan(100)
    expect(counts).toMatchObject({ wrong: 0 })
  })
})
