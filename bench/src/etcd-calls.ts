/**
 * Requests to an etcd as people write them: @grpc/grpc-js as it is shipped, messages by
 * @grpc/proto-loader, no time-outs. Holdfast runs on the same packages.
 */
import * as grpc from '@grpc/grpc-js'
import * as loader from '@grpc/proto-loader'

type Message = Readonly<{ fields: Readonly<Record<string, object>>; oneofs?: object }>

/** `'int64 1'`, or `'[]bytes 5'` for a repeated field. */
function message(fields: Readonly<Record<string, string>>, ...oneof: readonly string[]): Message {
  const entries = Object.entries(fields).map(([name, text]) => {
    const [type = '', id] = text.split(' ')
    const isRepeated = type.startsWith('[]')
    const rule = isRepeated ? { rule: 'repeated' } : {}
    return [name, { type: isRepeated ? type.slice(2) : type, id: Number(id), ...rule }] as const
  })
  const parts = { fields: Object.fromEntries(entries) }
  return oneof.length === 0 ? parts : { ...parts, oneofs: { one: { oneof } } }
}

function method(name: string, isStream = false): object {
  const parts = { requestType: `${name}Request`, responseType: `${name}Response` }
  return isStream ? { ...parts, requestStream: true, responseStream: true } : parts
}

/** What the contestants and the look need, with the names and numbers of etcd's rpc.proto and kv.proto. */
const ETCDSERVERPB = {
  KV: { methods: { Range: method('Range'), Txn: method('Txn') } },
  Watch: { methods: { Watch: method('Watch', true) } },
  Lease: { methods: { LeaseGrant: method('LeaseGrant') } },
  ResponseHeader: message({ revision: 'int64 3' }),
  RangeRequest: message({
    ...{ key: 'bytes 1', range_end: 'bytes 2', limit: 'int64 3', keys_only: 'bool 8' },
    ...{ sort_order: 'int32 5', sort_target: 'int32 6', max_create_revision: 'int64 13' },
  }),
  RangeResponse: message({ header: 'ResponseHeader 1', kvs: '[]mvccpb.KeyValue 2' }),
  PutRequest: message({ key: 'bytes 1', value: 'bytes 2', lease: 'int64 3' }),
  PutResponse: message({}),
  DeleteRangeRequest: message({ key: 'bytes 1' }),
  DeleteRangeResponse: message({ deleted: 'int64 2' }),
  RequestOp: message(
    {
      ...{ request_range: 'RangeRequest 1', request_put: 'PutRequest 2' },
      ...{ request_delete_range: 'DeleteRangeRequest 3' },
    },
    ...['request_range', 'request_put', 'request_delete_range'],
  ),
  ResponseOp: message(
    {
      ...{ response_range: 'RangeResponse 1', response_put: 'PutResponse 2' },
      ...{ response_delete_range: 'DeleteRangeResponse 3' },
    },
    ...['response_range', 'response_put', 'response_delete_range'],
  ),
  Compare: message(
    { result: 'int32 1', target: 'int32 2', key: 'bytes 3', create_revision: 'int64 5' },
    'create_revision',
  ),
  TxnRequest: message({
    ...{ compare: '[]Compare 1', success: '[]RequestOp 2', failure: '[]RequestOp 3' },
  }),
  TxnResponse: message({
    ...{ header: 'ResponseHeader 1', succeeded: 'bool 2', responses: '[]ResponseOp 3' },
  }),
  LeaseGrantRequest: message({ TTL: 'int64 1' }),
  LeaseGrantResponse: message({ ID: 'int64 2' }),
  WatchCreateRequest: message({ key: 'bytes 1', start_revision: 'int64 3', watch_id: 'int64 7' }),
  WatchCancelRequest: message({ watch_id: 'int64 1' }),
  WatchRequest: message(
    { create_request: 'WatchCreateRequest 1', cancel_request: 'WatchCancelRequest 2' },
    ...['create_request', 'cancel_request'],
  ),
  WatchResponse: message({ watch_id: 'int64 2', events: '[]mvccpb.Event 11' }),
}

const MVCCPB = {
  KeyValue: message({ key: 'bytes 1', create_revision: 'int64 2', lease: 'int64 6' }),
  Event: message({ type: 'int32 1' }),
}

const DEFINITION = loader.fromJSON(
  { nested: { etcdserverpb: { nested: ETCDSERVERPB }, mvccpb: { nested: MVCCPB } } } as never,
  { keepCase: true, longs: String },
)

type Methods = Readonly<Record<string, loader.MethodDefinition<object, object>>>

function methodOf(service: string, name: string): loader.MethodDefinition<object, object> {
  const methods = DEFINITION[`etcdserverpb.${service}`] as unknown as Methods
  return methods[name] as loader.MethodDefinition<object, object>
}

const TXN = methodOf('KV', 'Txn')
const RANGE = methodOf('KV', 'Range')
const LEASE_GRANT = methodOf('Lease', 'LeaseGrant')
const WATCH = methodOf('Watch', 'Watch')

export type Found = Readonly<{ key: Buffer; create_revision: string; lease?: string }>
export type RangeAnswer = Readonly<{ header: { revision: string }; kvs?: readonly Found[] }>
export type TxnAnswer = Readonly<{
  header: { revision: string }
  succeeded?: boolean
  responses?: readonly Readonly<{ response_range?: RangeAnswer }>[]
}>
export type WatchAnswer = Readonly<{ watch_id?: string; events?: readonly { type?: number }[] }>

/** `create_revision` of a key is this; `'0'`: there is no such key. */
export function isCreatedAt(key: Buffer, revision: string): object {
  return { key, result: 0, target: 1, create_revision: revision }
}

export interface EtcdCalls {
  txn(request: object): Promise<TxnAnswer>
  range(request: object): Promise<RangeAnswer>
  /** @returns Its id. It is kept alive by nobody. */
  grant(seconds: number): Promise<string>
  watch(answered: (answer: WatchAnswer) => void): { write(request: object): void }
  close(): void
}

/** @param endpoint `host:port`. */
export function openEtcd(endpoint: string): EtcdCalls {
  const client = new grpc.Client(endpoint, grpc.credentials.createInsecure())
  const call = <T>(
    { path, requestSerialize, responseDeserialize }: loader.MethodDefinition<object, object>,
    request: object,
  ): Promise<T> =>
    new Promise((resolve, reject) => {
      client.makeUnaryRequest(
        path,
        requestSerialize,
        responseDeserialize,
        request,
        (error, answer) => (error ? reject(error) : resolve(answer as T)),
      )
    })
  return {
    txn: (request) => call<TxnAnswer>(TXN, request),
    range: (request) => call<RangeAnswer>(RANGE, request),
    grant: async (seconds) => (await call<{ ID: string }>(LEASE_GRANT, { TTL: seconds })).ID,
    watch: (answered) => {
      const { path, requestSerialize, responseDeserialize } = WATCH
      const stream = client.makeBidiStreamRequest(path, requestSerialize, responseDeserialize)
      stream.on('data', answered)
      // It ends with its client, or its server.
      stream.on('error', () => undefined)
      return { write: (request) => void stream.write(request) }
    },
    close: () => client.close(),
  }
}
