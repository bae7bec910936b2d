/** An etcd of one member that fails, or does not: its locks are held by two processes, on a session each. */
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import { unanswered } from '../answers.ts'
import { etcdEntry, grantedTtlMs } from '../ground/etcd-entry.ts'
import { openEtcdLocks } from '../ground/etcd-locks.ts'
import { noteKeepAlives } from './etcd-wire.ts'
import type { OpenStand } from './failing-store.ts'
import type { HeldLock } from './holder.ts'
import type { OpenJobStore } from './job-store.ts'
import { TTL_MS } from './times.ts'

const ETCD_CLIENTS = ['first process', 'second process']
const OTHERS_TTL_MS = 60_000
/** Each question is a request of its own, to which etcd's gateway takes a millisecond of a core, and more. */
const LOOK_EVERY_MS = 400

export const openEtcdStand: OpenStand = async (trial, locks) => {
  const server = await trial.startEtcd()
  const proxy = await trial.startProxy(server.port)
  noteKeepAlives(trial, proxy, locks)
  const store = { endpoint: `127.0.0.1:${proxy.port}` }
  return {
    ...{ server, proxy, program: 'holdInEtcd' },
    holders: { clients: ETCD_CLIENTS, store, ttlMs: TTL_MS },
    look: () => noteGranted(trial, server.port, locks),
    openOther: async () => {
      const others = openEtcdLocks([server.endpoint])
      return {
        take: async ({ name }) => {
          const asked = others.tryAcquire(name, { ttlMs: OTHERS_TTL_MS, renew: false })
          const lease = await asked.catch(unanswered)
          return lease !== null && lease !== 'unanswered'
        },
        close: () => others.close(),
      }
    },
  }
}

export const openEtcdJob: OpenJobStore = async (trial, locks) => {
  const server = await trial.startEtcd()
  const proxy = await trial.startProxy(server.port)
  noteKeepAlives(trial, proxy, locks)
  return {
    clients: ETCD_CLIENTS,
    forHolders: { endpoint: `127.0.0.1:${proxy.port}` },
    forOthers: { endpoint: server.endpoint },
    programs: { hold: 'holdForLongInEtcd', ask: 'askEtcd' },
    everyMs: LOOK_EVERY_MS,
    whenHeld: () => noteGranted(trial, server.port, locks),
    look: async (name) => {
      const entry = await etcdEntry(server.port, name)
      // A place that is there is held; how long yet depends on its session, which is kept alive.
      return entry === null ? { owner: '', leftMs: 0 } : { owner: entry.key, leftMs: 1 }
    },
    close: async () => {
      await proxy.close()
      await server.stop()
    },
  }
}

/** For how long each lock was granted, by the word of etcd. */
export async function noteGranted(
  trial: Trial,
  port: number,
  locks: readonly Pick<HeldLock, 'name' | 'round'>[],
): Promise<void> {
  for (const { name, round } of locks) {
    const calledAtUs = monotonicUs()
    const entry = await etcdEntry(port, name)
    const value = entry === null ? 0 : await grantedTtlMs(port, entry.session)
    trial.note(round, 'granted', calledAtUs, { answer: 'seen', detail: entry?.key ?? '', value })
  }
}
