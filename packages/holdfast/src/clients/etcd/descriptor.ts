/**
 * The part of etcd's gRPC interface that locks need, in the JSON form of protobuf.js.
 *
 * Numbers and names are those of etcd 3.4 (api/etcdserverpb/rpc.proto, api/mvccpb/kv.proto), and later
 * versions only add to them. Trimmed, because a whole proto file would have to be found on a disk, and
 * compiled, at the first lock of each process. The services Lock and Election are left out: a waiter of
 * theirs whose lease ended while it waited is told that it holds the lock (etcd-io/etcd#9921).
 */
type Field = Readonly<{ type: string; id: number; rule?: 'repeated' }>
type Message = Readonly<{
  fields: Readonly<Record<string, Field>>
  oneofs?: Readonly<Record<string, { readonly oneof: readonly string[] }>>
}>

/** `'int64 1'`, or `'[]bytes 5'` for a repeated field. */
function message(fields: Readonly<Record<string, string>>, ...oneof: readonly string[]): Message {
  const read = (text: string): Field => {
    const [type = '', id] = text.split(' ')
    const isRepeated = type.startsWith('[]')
    const plain = { type: isRepeated ? type.slice(2) : type, id: Number(id) }
    return isRepeated ? { ...plain, rule: 'repeated' } : plain
  }
  const entries = Object.entries(fields).map(([name, text]) => [name, read(text)] as const)
  const parts = { fields: Object.fromEntries(entries) }
  return oneof.length === 0 ? parts : { ...parts, oneofs: { one: { oneof } } }
}

function method(name: string, isStream = false) {
  const parts = { requestType: `${name}Request`, responseType: `${name}Response` }
  return isStream ? { ...parts, requestStream: true, responseStream: true } : parts
}

const HEADER = 'ResponseHeader 1'

const ETCDSERVERPB = {
  KV: { methods: { Range: method('Range'), Txn: method('Txn') } },
  Watch: { methods: { Watch: method('Watch', true) } },
  Lease: {
    methods: {
      LeaseGrant: method('LeaseGrant'),
      LeaseRevoke: method('LeaseRevoke'),
      LeaseKeepAlive: method('LeaseKeepAlive', true),
      LeaseTimeToLive: method('LeaseTimeToLive'),
    },
  },
  Maintenance: { methods: { Status: method('Status') } },
  Auth: { methods: { Authenticate: method('Authenticate') } },

  ResponseHeader: message({
    cluster_id: 'uint64 1',
    member_id: 'uint64 2',
    revision: 'int64 3',
    raft_term: 'uint64 4',
  }),
  RangeRequest: message({
    key: 'bytes 1',
    range_end: 'bytes 2',
    limit: 'int64 3',
    revision: 'int64 4',
    sort_order: 'int32 5',
    sort_target: 'int32 6',
    keys_only: 'bool 8',
  }),
  RangeResponse: message({
    header: HEADER,
    kvs: '[]mvccpb.KeyValue 2',
    more: 'bool 3',
    count: 'int64 4',
  }),
  PutRequest: message({
    key: 'bytes 1',
    value: 'bytes 2',
    lease: 'int64 3',
    ignore_value: 'bool 5',
    ignore_lease: 'bool 6',
  }),
  PutResponse: message({ header: HEADER }),
  DeleteRangeRequest: message({ key: 'bytes 1', range_end: 'bytes 2' }),
  DeleteRangeResponse: message({ header: HEADER, deleted: 'int64 2' }),
  RequestOp: message(
    {
      request_range: 'RangeRequest 1',
      request_put: 'PutRequest 2',
      request_delete_range: 'DeleteRangeRequest 3',
    },
    ...['request_range', 'request_put', 'request_delete_range'],
  ),
  ResponseOp: message(
    {
      response_range: 'RangeResponse 1',
      response_put: 'PutResponse 2',
      response_delete_range: 'DeleteRangeResponse 3',
    },
    ...['response_range', 'response_put', 'response_delete_range'],
  ),
  Compare: message(
    {
      result: 'int32 1',
      target: 'int32 2',
      key: 'bytes 3',
      create_revision: 'int64 5',
      mod_revision: 'int64 6',
      range_end: 'bytes 64',
    },
    ...['create_revision', 'mod_revision'],
  ),
  TxnRequest: message({
    compare: '[]Compare 1',
    success: '[]RequestOp 2',
    failure: '[]RequestOp 3',
  }),
  TxnResponse: message({ header: HEADER, succeeded: 'bool 2', responses: '[]ResponseOp 3' }),

  LeaseGrantRequest: message({ TTL: 'int64 1', ID: 'int64 2' }),
  LeaseGrantResponse: message({ header: HEADER, ID: 'int64 2', TTL: 'int64 3', error: 'string 4' }),
  LeaseRevokeRequest: message({ ID: 'int64 1' }),
  LeaseRevokeResponse: message({ header: HEADER }),
  LeaseKeepAliveRequest: message({ ID: 'int64 1' }),
  LeaseKeepAliveResponse: message({ header: HEADER, ID: 'int64 2', TTL: 'int64 3' }),
  LeaseTimeToLiveRequest: message({ ID: 'int64 1' }),
  LeaseTimeToLiveResponse: message({ header: HEADER, TTL: 'int64 3', grantedTTL: 'int64 4' }),

  WatchCreateRequest: message({ key: 'bytes 1', range_end: 'bytes 2', start_revision: 'int64 3' }),
  WatchRequest: message({ create_request: 'WatchCreateRequest 1' }, 'create_request'),
  WatchResponse: message({
    header: HEADER,
    created: 'bool 3',
    canceled: 'bool 4',
    compact_revision: 'int64 5',
    cancel_reason: 'string 6',
    events: '[]mvccpb.Event 11',
  }),

  StatusRequest: message({}),
  StatusResponse: message({ header: HEADER, version: 'string 2', leader: 'uint64 4' }),
  AuthenticateRequest: message({ name: 'string 1', password: 'string 2' }),
  AuthenticateResponse: message({ header: HEADER, token: 'string 2' }),
}

const MVCCPB = {
  KeyValue: message({
    key: 'bytes 1',
    create_revision: 'int64 2',
    mod_revision: 'int64 3',
    version: 'int64 4',
    value: 'bytes 5',
    lease: 'int64 6',
  }),
  Event: message({ type: 'int32 1', kv: 'KeyValue 2' }),
}

/** For `fromJSON` of @grpc/proto-loader. Enums are their numbers. */
export const DESCRIPTOR: { nested: Record<string, { nested: object }> } = {
  nested: { etcdserverpb: { nested: ETCDSERVERPB }, mvccpb: { nested: MVCCPB } },
}
