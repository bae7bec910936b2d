/** What a guard compares, as etcd has it now: guard.ts, whose types must not need those of a client. */
import type { Fenced } from '../../core/backend.ts'
import { LeaseLostError, TokenSourceError } from '../../core/errors.ts'
import { checkFenced } from '../../core/guard.ts'
import type { Lease } from '../../core/lease.ts'
import type { Context } from './context.ts'
import type { EtcdCompare } from './guard.ts'
import { holdersKey } from './holding.ts'
import { foundAt } from './value.ts'

/** @param open What has to be done before etcd can be asked. */
export async function comparesOf(
  context: Context,
  open: () => Promise<void>,
  lease: Fenced,
): Promise<readonly EtcdCompare[]> {
  const { lockName, owner, fencingToken, source } = checkFenced(lease)
  checkValid(lease)
  await open()
  const recorded = context.source()
  if (source !== recorded) {
    throw new TokenSourceError(
      lockName,
      source,
      recorded,
      'take leases of the backend of this guard',
    )
  }
  const found = await holdersKey(context, lockName, owner)
  if (!found || foundAt(found).token !== fencingToken) {
    checkValid(lease)
    const detail = 'its key is not in etcd any more'
    throw new LeaseLostError({ lockName, fencingToken, heldMs: null, reason: 'expired', detail })
  }
  return [{ key: Uint8Array.from(found.key), createRevision: found.create_revision }]
}

/** A lease of the engine knows how and when it ended; a plain `Fenced` has nothing behind it that could. */
function checkValid(lease: Fenced): void {
  const { assertValid } = lease as Partial<Lease>
  if (typeof assertValid === 'function') assertValid.call(lease)
}
