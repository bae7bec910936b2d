/** The transactions and ranges of etcd that the protocol is made of. */
import {
  COMPARE_CREATE_REVISION,
  COMPARE_EQUAL,
  COMPARE_LESS,
  COMPARE_MOD_REVISION,
  type Compare,
  type KeyValue,
  type Operation,
  type RangeRequest,
  SORT_ASCEND,
  SORT_BY_CREATION,
  type TxnRequest,
  type TxnResponse,
} from '../../clients/etcd/messages.ts'
import type { Range } from './keys.ts'

const NEVER = '0'

/** `create_revision == 0`: no such key; of a range, no key at all. */
export function isAbsent({
  key,
  range_end,
}: Readonly<{ key: Buffer; range_end?: Buffer }>): Compare {
  // Written out, here and below: an object made by spreading takes a microsecond more.
  const of = { key, result: COMPARE_EQUAL, target: COMPARE_CREATE_REVISION, create_revision: NEVER }
  return range_end === undefined ? of : { ...of, range_end }
}

/** The key is the one that was made at that revision, whatever has been written to it since. */
export function isCreatedAt(key: Buffer, revision: bigint): Compare {
  return {
    key,
    result: COMPARE_EQUAL,
    target: COMPARE_CREATE_REVISION,
    create_revision: revision.toString(),
  }
}

/** No key of the range is younger. */
export function isNotYounger(range: Range, revision: bigint): Compare {
  const create_revision = (revision + 1n).toString()
  return { ...range, result: COMPARE_LESS, target: COMPARE_CREATE_REVISION, create_revision }
}

/** Nobody has written to it since; `'0'`: it is absent. */
export function isUnchanged(key: Buffer, modRevision: string): Compare {
  return {
    key,
    result: COMPARE_EQUAL,
    target: COMPARE_MOD_REVISION,
    mod_revision: modRevision,
  }
}

export function put(key: Buffer, value: Buffer, lease: string): Operation {
  return { request_put: { key, value, lease } }
}

/** Another lease for a key, and nothing else. */
export function move(key: Buffer, lease: string): Operation {
  return { request_put: { key, lease, ignore_value: true } }
}

/** Another value for a key, and nothing else. */
export function rewrite(key: Buffer, value: Buffer): Operation {
  return { request_put: { key, value, ignore_lease: true } }
}

export function remove(key: Buffer): Operation {
  return { request_delete_range: { key } }
}

export function removeRange(key: Buffer, end: Buffer): Operation {
  return { request_delete_range: { key, range_end: end } }
}

/** The places of a name, the oldest first: who holds it, and who comes next. */
export function inOrder({ key, range_end }: Range, limit = 0): RangeRequest {
  return { key, range_end, sort_order: SORT_ASCEND, sort_target: SORT_BY_CREATION, limit }
}

export function look(request: RangeRequest): Operation {
  return { request_range: request }
}

export function transaction(
  compare: readonly Compare[],
  success: readonly Operation[],
  failure: readonly Operation[] = [],
): TxnRequest {
  return { compare, success, failure }
}

/** What the operation at `index`, a range, has found. */
export function foundBy(
  { responses }: TxnResponse,
  index: number,
): { kvs: readonly KeyValue[]; count: number } {
  const range = responses?.[index]?.response_range
  return { kvs: range?.kvs ?? [], count: Number(range?.count ?? 0) }
}

export function revisionOf({ header }: Pick<TxnResponse, 'header'>): bigint {
  return BigInt(header.revision ?? NEVER)
}
