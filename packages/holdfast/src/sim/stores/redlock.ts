/** N independent Redis nodes, and the real Redlock backend in each process; its push included. */
import { redlockBackendWith } from '../../backends/redlock/redlock-backend.ts'
import { NodeClient } from '../node/client.ts'
import { TTL_MS } from '../scenarios.ts'
import { RedisServer } from './redis-server.ts'
import type { Ground, LockStore } from './store.ts'

/** What cannot be sent at once is owed until the node has answered something. */
const WAYS = 3
/** The default, 50 ms, is less than what is usual in this weather. */
const NODE_TIMEOUT_MS = 120

/** Node names in the order of their nodes. */
export function redlockStore(ground: Ground, nodeCount: number): LockStore {
  const { random, scenario } = ground
  const names = Array.from({ length: nodeCount }, (_, place) => `n${place + 1}`)
  const servers = names.map((name) => new RedisServer(ground, name, WAYS))
  const losesData = scenario.everyMs.storeLoss !== Number.POSITIVE_INFINITY
  // A node comes back after a second or two, and a majority has to stand.
  const rarely = (accident: () => void): void => {
    if (random.chance(0.5)) accident()
  }
  return {
    accidents: {
      pause: () => random.pick(servers).pause(),
      step: () => random.pick(servers).step(),
      rate: () => random.pick(servers).changeRate(),
      stop: () => rarely(() => random.pick(servers).stop(true)),
      loss: () => rarely(() => lose(ground, servers)),
    },
    prepare: () => prepare(ground, names, servers),
    reach: (process) => {
      const reached = servers.map((server) => server.client(process))
      const nodes = Object.fromEntries(
        reached.map(({ client }, place) => [names[place] ?? '', { client, durable: !losesData }]),
      )
      const options = { maxTtlMs: TTL_MS, onEmpty: 'wait', nodeTimeoutMs: NODE_TIMEOUT_MS } as const
      return {
        backend: redlockBackendWith(process.seams, nodes, options),
        links: reached.map(({ link }) => link),
      }
    },
    look: (nowMs) => {
      for (const { watch } of servers) watch.look(nowMs)
    },
  }
}

/** One node is replaced, or a mistake or a loss of power befalls all of them at once. */
function lose({ random, scenario }: Ground, servers: readonly RedisServer[]): void {
  const lost = random.chance(scenario.allLostShare) ? servers : [random.pick(servers)]
  for (const server of lost) server.loseData()
}

/** New nodes wait for one TTL before they vote; these are said to be new, by somebody who knows it. */
function prepare(ground: Ground, names: readonly string[], servers: readonly RedisServer[]): void {
  const { seams } = ground.process('init')
  const clients = servers.map(({ node }) => new NodeClient(node))
  const nodes = Object.fromEntries(clients.map((client, place) => [names[place] ?? '', client]))
  const backend = redlockBackendWith(seams, nodes, { maxTtlMs: TTL_MS, onEmpty: 'fresh' })
  const request = {
    lockName: 'init',
    owner: seams.nonce(),
    ttlMs: TTL_MS,
    timeoutMs: TTL_MS,
    lockDelayMs: 0,
    waits: false,
    waiter: seams.nonce(),
    holder: { host: 'init', pid: 1 },
    onLost: () => undefined,
  }
  const over = (): void => {
    void backend.close()
    for (const client of clients) client.disconnect()
  }
  backend.tryAcquire(request).then(over, over)
}
