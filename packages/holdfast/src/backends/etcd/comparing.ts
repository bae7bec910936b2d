/** What a guard compares, as etcd has it now: guard.ts, whose types must not need those of a client. */
import type { Fenced } from '../../core/backend.ts'
import { LeaseLostError, TokenSourceError } from '../../core/errors.ts'
import { checkFenced } from '../../core/guard.ts'
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
    throw new LeaseLostError({ lockName, fencingToken, heldMs: 0, reason: 'expired' })
  }
  return [{ key: Uint8Array.from(found.key), createRevision: found.create_revision }]
}
