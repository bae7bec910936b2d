import * as loader from '@grpc/proto-loader'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DESCRIPTOR } from '../../../src/clients/etcd/descriptor.ts'
import type { TxnRequest, TxnResponse } from '../../../src/clients/etcd/messages.ts'
import { decodeTxn, encodeTxn } from '../../../src/clients/etcd/txn-codec.ts'

/** What has its default is there, so that an absent part and an empty one are the same. */
const DEFINITION = loader.fromJSON(DESCRIPTOR as Parameters<typeof loader.fromJSON>[0], {
  ...{ keepCase: true, longs: String, arrays: true, defaults: true },
})
const TXN = (DEFINITION['etcdserverpb.KV'] as loader.ServiceDefinition)[
  'Txn'
] as loader.MethodDefinition<object, object>

const bytes = fc.uint8Array({ maxLength: 300 }).map((some) => Buffer.from(some))
const key = fc.uint8Array({ minLength: 1, maxLength: 300 }).map((some) => Buffer.from(some))
const int64 = fc
  .oneof(fc.bigInt({ min: 0n, max: 2n ** 63n - 1n }), fc.nat().map(BigInt))
  .map((value) => value.toString())
const few = <T>(one: fc.Arbitrary<T>) => fc.array(one, { maxLength: 5 })

const compare = fc.oneof(
  fc.record(
    { result: fc.nat(3), target: fc.nat(4), key, create_revision: int64, range_end: bytes },
    { requiredKeys: ['result', 'target', 'key', 'create_revision'] },
  ),
  fc.record({ result: fc.nat(3), target: fc.nat(4), key, mod_revision: int64 }),
)
const range = fc.record(
  {
    ...{ key, range_end: bytes, limit: fc.nat(), revision: int64, sort_order: fc.nat(2) },
    ...{ sort_target: fc.nat(4), keys_only: fc.boolean() },
  },
  { requiredKeys: ['key'] },
)
const put = fc.record(
  { key, value: bytes, lease: int64, ignore_value: fc.boolean(), ignore_lease: fc.boolean() },
  { requiredKeys: ['key'] },
)
const removal = fc.record({ key, range_end: bytes }, { requiredKeys: ['key'] })
const operation = fc.oneof(
  fc.record({ request_range: range }),
  fc.record({ request_put: put }),
  fc.record({ request_delete_range: removal }),
)
const request: fc.Arbitrary<TxnRequest> = fc.record({
  ...{ compare: few(compare), success: few(operation), failure: few(operation) },
})

const keyValue = fc.record(
  {
    ...{ key, create_revision: int64, mod_revision: int64, version: int64 },
    ...{ value: bytes, lease: int64 },
  },
  { requiredKeys: ['key', 'create_revision', 'mod_revision'] },
)
const header = fc.record({
  ...{ cluster_id: int64, member_id: int64, revision: int64, raft_term: int64 },
})
const response = fc.record({
  header,
  succeeded: fc.boolean(),
  responses: few(
    fc.oneof(
      fc.record({
        response_range: fc.record({ header, kvs: few(keyValue), more: fc.boolean(), count: int64 }),
      }),
      fc.record({ response_put: fc.record({ header }) }),
      fc.record({ response_delete_range: fc.record({ header, deleted: int64 }) }),
    ),
  ),
})

describe('the bytes of a transaction', () => {
  // The accident: a compare that is lost on the way, and a lock that is put over a living holder.
  it('are, to proto-loader, the request that it would have sent', () => {
    fc.assert(
      fc.property(request, (asked) => {
        const theirs = TXN.requestDeserialize(TXN.requestSerialize(asked))
        expect(TXN.requestDeserialize(encodeTxn(asked))).toEqual(theirs)
      }),
    )
  })

  it('stay those of their request when the next one is written', () => {
    const ask = (name: string): TxnRequest => ({
      ...{ compare: [], success: [{ request_put: { key: Buffer.from(name) } }], failure: [] },
    })
    const first = encodeTxn(ask('first'))
    const copy = Buffer.from(first)
    encodeTxn(ask('second'))
    expect(first).toEqual(copy)
  })

  it('may be longer than anything before', () => {
    const value = Buffer.alloc(100_000, 1)
    const puts = [1, 2, 3].map((index) => ({
      request_put: { key: Buffer.from(`${index}`), value },
    }))
    const asked: TxnRequest = { compare: [], success: puts, failure: puts }
    expect(TXN.requestDeserialize(encodeTxn(asked))).toEqual(
      TXN.requestDeserialize(TXN.requestSerialize(asked)),
    )
  })
})

describe('the bytes of an answer', () => {
  // The accident: a revision or a lease that is off by one digit, and a token that repeats.
  it('say what proto-loader reads in them', () => {
    fc.assert(
      fc.property(response, (told) => {
        const sent = TXN.responseSerialize(told)
        const theirs = TXN.responseDeserialize(sent) as TxnResponse
        const ours = decodeTxn(sent)
        expect(ours.succeeded).toBe(theirs.succeeded)
        const { revision, raft_term } = theirs.header
        expect({ revision: '0', raft_term: '0', ...ours.header }).toEqual({ revision, raft_term })
        expect(ours.responses?.length).toBe(theirs.responses?.length)
        for (const [index, one] of (theirs.responses ?? []).entries()) {
          const own = ours.responses?.[index]?.response_range
          const range = one.response_range
          if (!range) {
            expect(own).toBeUndefined()
            continue
          }
          expect(own).toMatchObject({ more: range.more, count: range.count })
          const none = { value: Buffer.alloc(0), lease: '0' }
          expect(own?.kvs?.map((kv) => ({ ...none, ...kv }))).toEqual(
            range.kvs?.map(({ key, create_revision, mod_revision, value, lease }) => ({
              ...{ key, create_revision, mod_revision, value, lease },
            })),
          )
        }
      }),
    )
  })

  // A proxy, or a member that dies: half an answer is none.
  it('are refused when they are cut off', () => {
    const told = {
      ...{ header: { revision: '7', raft_term: '2' }, succeeded: true },
      responses: [{ response_range: { count: '1', kvs: [{ key: Buffer.from('a'), lease: '5' }] } }],
    }
    const sent = Buffer.from(TXN.responseSerialize(told))
    // The end of the first field, and of the second, are ends of whole messages too.
    const whole = [0, 6, 8, sent.length]
    for (let length = 0; length < sent.length; length++) {
      const cut = sent.subarray(0, length)
      if (whole.includes(length)) expect(() => decodeTxn(cut)).not.toThrow()
      else expect(() => decodeTxn(cut), `${length} bytes`).toThrow(/cut off/)
    }
  })

  it('may have fields of a later version, which are passed over', () => {
    const header = [0x0a, 0x02, 0x18, 0x07]
    const unknown = [0x78, 0xff, 0x01, 0x7a, 0x01, 0x00, 0x79, ...Buffer.alloc(8), 0x7d, 0, 0, 0, 0]
    const read = decodeTxn(Buffer.from([...unknown, ...header, ...unknown, 0x10, 0x01]))
    expect(read).toMatchObject({ header: { revision: '7' }, succeeded: true })
    expect(() => decodeTxn(Buffer.from([0x7b]))).toThrow('wire type 3')
    expect(() => decodeTxn(Buffer.from([0x10, ...Buffer.alloc(10, 0xff), 0x01]))).toThrow('64 bits')
  })
})
