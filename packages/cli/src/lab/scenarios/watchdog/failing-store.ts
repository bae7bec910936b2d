/**
 * The arms in which the store fails under its holders. In each pass a Redis and a proxy of their
 * own, up to twenty locks, half of them held with ioredis and half with node-redis; then the fault.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FaultProxy } from 'holdfast/testkit'
import type { RedisServer } from '../../servers/index.ts'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import { openRedis } from '../ground/redis-client.ts'
import { CLIENTS } from './clients.ts'
import type { HeldLock } from './holder.ts'
import { locksOf, startHolders, sumOf, untilCounted } from './passes.ts'
import type { StoreFaultName } from './scenario.ts'
import { TTL_MS, WATCH_AFTER_MS } from './times.ts'
import { noteRequests } from './wire.ts'

/** What is done to the store while it is held. */
interface StoreFault {
  apply(server: RedisServer, proxy: FaultProxy): Promise<void>
  /** Somebody else asks the store itself meanwhile, not through the proxy. */
  readonly canOthersAsk: boolean
}

const silent: StoreFault = {
  apply: async (_server, proxy) => {
    proxy.drop('toServer')
    proxy.drop('toClient')
  },
  canOthersAsk: true,
}

/** Later than any time-out and than the TTL. */
const slow: StoreFault = {
  apply: async (_server, proxy) => proxy.delay('toClient', 2 * TTL_MS),
  canOthersAsk: true,
}

const hung: StoreFault = {
  apply: async (server) => server.freeze(),
  canOthersAsk: false,
}

const dead: StoreFault = {
  apply: (server) => server.kill(),
  canOthersAsk: false,
}

export const faults: Readonly<Record<StoreFaultName, StoreFault>> = { silent, slow, hung, dead }

const ASK_EVERY_MS = 20

/** @param program `hold`, or `holdByHand` with one client only. */
export async function loseStore(
  trial: Trial,
  fault: StoreFault,
  program: 'hold' | 'holdByHand',
): Promise<null> {
  await untilCounted(trial, (first, count) =>
    onePass(trial, fault, program, locksOf(trial, first, count, TTL_MS)),
  )
  return null
}

/** @returns how many holders were running all the time, so that their rounds count. */
async function onePass(
  trial: Trial,
  fault: StoreFault,
  program: string,
  locks: readonly HeldLock[],
): Promise<number> {
  const server = await trial.startRedis()
  const proxy = await trial.startProxy(server.port)
  noteRequests(trial, proxy, locks)
  const clients = program === 'holdByHand' ? ['ioredis'] : CLIENTS
  const holders = { clients, store: { port: proxy.port }, ttlMs: TTL_MS }
  const { workers, work } = await startHolders(trial, holders, locks, program)
  // Long enough for a renewal of each; the fault comes at any moment of the next one.
  await sleep(TTL_MS * (0.4 + 0.4 * trial.draw(`fault ${locks[0]?.round}`)))
  const calledAtUs = monotonicUs()
  await fault.apply(server, proxy)
  for (const { round } of locks) trial.note(round, 'fault', calledAtUs, { answer: 'began' })
  const watchMs = TTL_MS + WATCH_AFTER_MS
  if (fault.canOthersAsk) await askUntil(trial, server.port, locks, watchMs)
  else await sleep(watchMs)
  for (const worker of workers) worker.mark('over')
  const running = await Promise.all(work)
  await Promise.all(workers.map((worker) => worker.kill()))
  await proxy.close()
  await server.stop()
  return sumOf(running)
}

/** Somebody else asks for each lock again and again, at the store itself, until it is granted. */
async function askUntil(
  trial: Trial,
  port: number,
  locks: readonly HeldLock[],
  watchMs: number,
): Promise<void> {
  const redis = await openRedis({ redis: { host: '127.0.0.1', port } })
  try {
    const open = new Set(locks)
    const giveUpAtMs = performance.now() + watchMs
    while (performance.now() < giveUpAtMs) {
      for (const lock of open) {
        const calledAtUs = monotonicUs()
        const reply = await redis.set(`lock:${lock.name}`, 'somebody-else', 'PX', 60_000, 'NX')
        if (reply !== 'OK') continue
        trial.note(lock.round, 'other', calledAtUs, { answer: 'granted' })
        open.delete(lock)
      }
      await sleep(ASK_EVERY_MS)
    }
  } finally {
    redis.disconnect()
  }
}
