/**
 * A backend in another process, reached over a link: the client's side of a store.
 *
 * It does what every backend with a network must: a grant and a renewal count from before their request
 * left, on the client's own clock, and never from anything that the store's clock says.
 */
import type { AcquireRequest, Backend, LockInfo } from '../core/backend.ts'
import type { Link } from './link.ts'
import type { Process } from './process.ts'

export function remoteBackend(client: Process, link: Link, store: Backend): Backend {
  const ask = <T>(what: string, execute: () => Promise<T>): Promise<T> =>
    link.call(what, true, execute)
  /** What the store says unasked travels too. */
  const overLink = (request: AcquireRequest): AcquireRequest => ({
    ...request,
    onLost: (reason) => link.push(`lost by ${reason}`, () => request.onLost(reason)),
  })
  return {
    capabilities: store.capabilities,
    async tryAcquire(request) {
      const sentAtMs = client.nowMs()
      const what = `acquire ${request.lockName} as ${request.owner}`
      const result = await ask(what, () => store.tryAcquire(overLink(request)))
      if (result.kind === 'held') return result
      return { kind: 'granted', grant: { ...result.grant, sentAtMs } }
    },
    async handOver(grant, next, evenIfWanted) {
      const sentAtMs = client.nowMs()
      const what = `hand ${grant.lockName} over from ${grant.owner} to ${next.owner}`
      const handOver = store.handOver as NonNullable<Backend['handOver']>
      const result = await ask(what, () =>
        handOver.call(store, grant, overLink(next), evenIfWanted),
      )
      if (result.kind !== 'handed-over') return result
      return { ...result, grant: { ...result.grant, sentAtMs } }
    },
    async renew(grant, ttlMs) {
      const sentAtMs = client.nowMs()
      const result = await ask(`renew ${grant.lockName} of ${grant.owner}`, () =>
        store.renew(grant, ttlMs),
      )
      return result.kind === 'lost' ? result : { ...result, sentAtMs }
    },
    release: (grant, keepForMs) =>
      ask(`release ${grant.lockName} of ${grant.owner}`, () => store.release(grant, keepForMs)),
    cancel: (lockName, owner) =>
      ask(`cancel ${lockName} of ${owner}`, () => store.cancel(lockName, owner)),
    wakeUp: (lockName, signal) => sleep(link, store, lockName, signal),
    proclaim: (lease, value) =>
      ask(`proclaim for ${lease.lockName}`, () => store.proclaim(lease, value)),
    inspect: (lockName) => ask(`inspect ${lockName}`, () => store.inspect(lockName)),
    async *list(prefix, limit) {
      const found: LockInfo[] = await ask(`list ${prefix}`, async () => {
        const all: LockInfo[] = []
        for await (const info of store.list(prefix, limit)) all.push(info)
        return all
      })
      yield* found
    },
    async revoke(request, seen) {
      const sentAtMs = client.nowMs()
      const grant = await ask(`revoke ${request.lockName} as ${request.owner}`, () =>
        store.revoke(overLink(request), seen),
      )
      return grant && { ...grant, sentAtMs }
    },
    raise: (lockName, fencingTokenMin) =>
      ask(`raise ${lockName}`, () => store.raise(lockName, fencingTokenMin)),
    close: async () => undefined,
  }
}

/** Its end at the store is a hint at most, so a caller who has left is not waited for there. */
function sleep(link: Link, store: Backend, lockName: string, signal: AbortSignal): Promise<void> {
  const wakeUp = store.wakeUp as NonNullable<Backend['wakeUp']>
  const woken = link.call(`wake-up for ${lockName}`, false, () =>
    wakeUp.call(store, lockName, signal),
  )
  const left = new Promise<void>((resolve) => {
    signal.addEventListener('abort', () => resolve(), { once: true })
  })
  return Promise.race([woken, left])
}
