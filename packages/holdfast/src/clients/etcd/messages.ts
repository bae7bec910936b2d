/**
 * Messages of etcd as they come and go: 64-bit integers are decimal text, because a JavaScript number
 * would round them; bytes are Buffers; what has its default is absent.
 */
export type Header = Readonly<{
  cluster_id?: string
  member_id?: string
  revision?: string
  raft_term?: string
}>

export type KeyValue = Readonly<{
  key: Buffer
  create_revision: string
  mod_revision: string
  value?: Buffer
  /** Absent: it has none, so it never ends by itself. */
  lease?: string
}>

export type RangeRequest = Readonly<{
  key: Buffer
  /** Exclusive; absent: the one key. */
  range_end?: Buffer
  limit?: number
  revision?: string
  sort_order?: number
  sort_target?: number
  keys_only?: boolean
}>

export type RangeResponse = Readonly<{
  header?: Header
  kvs?: readonly KeyValue[]
  more?: boolean
  /** How many keys lie in the range, whatever the limit. */
  count?: string
}>

export const SORT_ASCEND = 1
export const SORT_BY_CREATION = 2

export type Compare = Readonly<{
  result: number
  target: number
  key: Buffer
  create_revision?: string
  mod_revision?: string
  range_end?: Buffer
}>

export const COMPARE_EQUAL = 0
export const COMPARE_LESS = 2
export const COMPARE_CREATE_REVISION = 1
export const COMPARE_MOD_REVISION = 2

export type PutRequest = Readonly<{
  key: Buffer
  value?: Buffer
  lease?: string
  ignore_value?: boolean
  ignore_lease?: boolean
}>

export type Operation =
  | Readonly<{ request_range: RangeRequest }>
  | Readonly<{ request_put: PutRequest }>
  | Readonly<{ request_delete_range: Readonly<{ key: Buffer; range_end?: Buffer }> }>

export type TxnRequest = Readonly<{
  compare: readonly Compare[]
  success: readonly Operation[]
  failure: readonly Operation[]
}>

export type TxnResponse = Readonly<{
  header: Header
  succeeded?: boolean
  responses?: readonly Readonly<{
    response_range?: RangeResponse
    response_delete_range?: Readonly<{ deleted?: string }>
  }>[]
}>

export type LeaseAnswer = Readonly<{
  header: Header
  ID?: string
  TTL?: string
  grantedTTL?: string
  error?: string
}>

export type WatchEvent = Readonly<{ type?: number; kv: KeyValue }>

export const EVENT_DELETE = 1

export type WatchResponse = Readonly<{
  header: Header
  created?: boolean
  canceled?: boolean
  compact_revision?: string
  cancel_reason?: string
  events?: readonly WatchEvent[]
}>

export type StatusResponse = Readonly<{ header: Header; version?: string; leader?: string }>

/** One method: what it is called with, and how it answers. */
export interface Methods {
  Range: [RangeRequest, RangeResponse]
  Txn: [TxnRequest, TxnResponse]
  LeaseGrant: [Readonly<{ TTL: number; ID: string }>, LeaseAnswer]
  LeaseRevoke: [Readonly<{ ID: string }>, Readonly<{ header: Header }>]
  LeaseTimeToLive: [Readonly<{ ID: string }>, LeaseAnswer]
  Status: [Readonly<Record<string, never>>, StatusResponse]
  Authenticate: [Readonly<{ name: string; password: string }>, Readonly<{ token?: string }>]
}

export interface Streams {
  LeaseKeepAlive: [Readonly<{ ID: string }>, LeaseAnswer]
  Watch: [
    Readonly<{
      create_request: Readonly<{ key: Buffer; range_end: Buffer; start_revision?: string }>
    }>,
    WatchResponse,
  ]
}
