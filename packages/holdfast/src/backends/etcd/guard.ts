/**
 * The guard for data in etcd itself: a compare of your own transaction. Nothing is claimed and nothing is
 * kept, because the lock lies in the same store: etcd decides lock and write at one revision.
 */
import type { Backend, Fenced } from '../../core/backend.ts'
import { InvalidArgumentError, LeaseLostError, TokenSourceError } from '../../core/errors.ts'
import { checkFenced } from '../../core/guard.ts'
import type { Context } from './context.ts'
import { holdersKey } from './holding.ts'
import { foundAt } from './value.ts'

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
   * @throws LeaseLostError when the lock is no longer this lease's. TokenSourceError when the lease is of
   *   another etcd, or key prefix. BackendUnavailableError when etcd did not tell. Nothing was applied.
   */
  compares(lease: Fenced): Promise<readonly EtcdCompare[]>
}

/** What a backend needs to have been opened for. */
interface Opened {
  readonly context: Context
  open(): Promise<void>
}

const backends = new WeakMap<object, Opened>()

/** A backend registers here how to look into its etcd. */
export function onGuard(backend: object, opened: Opened): void {
  backends.set(backend, opened)
}

/**
 * Guards data in the etcd that the locks of `backend` are in.
 *
 * @throws InvalidArgumentError unless `backend` is one that `etcdBackend` made.
 */
export function etcdGuard(backend: Backend): EtcdGuard {
  const opened = typeof backend === 'object' && backend !== null ? backends.get(backend) : undefined
  if (!opened) {
    throw new InvalidArgumentError('backend', backend, 'a backend that etcdBackend made')
  }
  return { compares: (lease) => comparesOf(opened, lease) }
}

async function comparesOf(opened: Opened, lease: Fenced): Promise<readonly EtcdCompare[]> {
  const { lockName, owner, fencingToken, source } = checkFenced(lease)
  await opened.open()
  const recorded = opened.context.source()
  if (source !== recorded) {
    throw new TokenSourceError(
      lockName,
      source,
      recorded,
      'take leases of the backend of this guard',
    )
  }
  const found = await holdersKey(opened.context, lockName, owner)
  if (!found || foundAt(found).token !== fencingToken) {
    throw new LeaseLostError({ lockName, fencingToken, heldMs: 0, reason: 'expired' })
  }
  return [{ key: Uint8Array.from(found.key), createRevision: found.create_revision }]
}
