/**
 * The arms in which the store fails under its holders. In each pass a server and a proxy of their own and up
 * to twenty locks, held by two processes; then the fault.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { FaultProxy } from 'holdfast/testkit'
import type { Server } from '../../servers/index.ts'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import type { HeldLock } from './holder.ts'
import { type Holders, locksOf, startHolders, sumOf, untilCounted } from './passes.ts'
import type { StoreFaultName } from './scenario.ts'
import { TTL_MS, WATCH_AFTER_MS } from './times.ts'

/** What is done to the store while it is held. */
interface StoreFault {
  apply(server: Pick<Server, 'freeze' | 'kill'>, proxy: FaultProxy): Promise<void>
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

const FAULTS: Readonly<Record<StoreFaultName, StoreFault>> = { silent, slow, hung, dead }

const ASK_EVERY_MS = 20

/** Somebody else, at the store itself. */
export interface Other {
  /** Asks once; true: it was granted the lock. */
  take(lock: HeldLock): Promise<boolean>
  close(): Promise<void>
}

/** A store of one pass. */
export interface Stand {
  readonly server: Server
  readonly proxy: FaultProxy
  readonly holders: Holders
  /** What the holders run. */
  readonly program: string
  /** Before the fault: what the store says of each lock, where that is needed. */
  look(): Promise<void>
  openOther(): Promise<Other>
}

export type OpenStand = (trial: Trial, locks: readonly HeldLock[]) => Promise<Stand>

export async function loseStore(
  trial: Trial,
  fault: StoreFaultName,
  open: OpenStand,
): Promise<null> {
  await untilCounted(trial, (first, count) =>
    onePass(trial, FAULTS[fault], open, locksOf(trial, first, count, TTL_MS)),
  )
  return null
}

/** @returns how many holders were running all the time, so that their rounds count. */
async function onePass(
  trial: Trial,
  fault: StoreFault,
  open: OpenStand,
  locks: readonly HeldLock[],
): Promise<number> {
  const stand = await open(trial, locks)
  const { server, proxy, holders, program } = stand
  const { workers, work } = await startHolders(trial, holders, locks, program)
  // Long enough for a renewal of each; the fault comes at any moment of the next one.
  await sleep(TTL_MS * (0.4 + 0.4 * trial.draw(`fault ${locks[0]?.round}`)))
  await stand.look()
  const calledAtUs = monotonicUs()
  await fault.apply(server, proxy)
  for (const { round } of locks) trial.note(round, 'fault', calledAtUs, { answer: 'began' })
  const watchMs = TTL_MS + WATCH_AFTER_MS
  if (fault.canOthersAsk) await askUntil(trial, await stand.openOther(), locks, watchMs)
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
  other: Other,
  locks: readonly HeldLock[],
  watchMs: number,
): Promise<void> {
  try {
    const open = new Set(locks)
    const giveUpAtMs = performance.now() + watchMs
    while (performance.now() < giveUpAtMs) {
      for (const lock of open) {
        const calledAtUs = monotonicUs()
        if (!(await other.take(lock))) continue
        trial.note(lock.round, 'other', calledAtUs, { answer: 'granted' })
        open.delete(lock)
      }
      await sleep(ASK_EVERY_MS)
    }
  } finally {
    await other.close()
  }
}
