/**
 * The guard for data in etcd itself: a compare of your own transaction. Nothing is claimed and nothing is
 * kept, because the lock lies in the same store: etcd decides lock and write at one revision.
 */
import type { Backend, Fenced } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'

/** `create_revision(key) == createRevision`: the lock is still this lease's. */
export type EtcdCompare = Readonly<{
  key: Uint8Array
  /** Decimal digits, as etcd's clients take and give 64-bit integers. */
  createRevision: string
}>

export interface EtcdGuard {
  /**
   * The compares to put into a transaction of your own, with whatever client you have. Guarantees that the
   * transaction is done only while the lease holds its lock, however late it arrives. Does not guarantee
   * anything about writes outside of that transaction. May be kept as long as the lease is held.
   *
   * @throws LeaseLostError when the lock is no longer this lease's; a `Lease` that knows why says so, and is
   *   not looked up in etcd. TokenSourceError when the lease is of
   *   another etcd, or key prefix. BackendUnavailableError when etcd did not tell. Nothing was applied.
   */
  compares(lease: Fenced): Promise<readonly EtcdCompare[]>
}

type Compares = EtcdGuard['compares']

const backends = new WeakMap<object, Compares>()

/** A backend registers here how it looks into its etcd. */
export function onGuard(backend: object, compares: Compares): void {
  backends.set(backend, compares)
}

/**
 * Guards data in the etcd that the locks of `backend` are in.
 *
 * @throws InvalidArgumentError unless `backend` is one that `etcdBackend` made.
 */
export function etcdGuard(backend: Backend): EtcdGuard {
  const compares = typeof backend === 'object' && backend !== null ? backends.get(backend) : null
  if (!compares) {
    throw new InvalidArgumentError('backend', backend, 'a backend that etcdBackend made')
  }
  return { compares }
}
