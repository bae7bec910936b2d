import * as grpc from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { Member } from '../../../src/clients/etcd/member.ts'

/** A server that is no etcd, but answers: bytes, or an error. */
type Answer = (reply: (error: Partial<grpc.StatusObject> | null, bytes?: Buffer) => void) => void

let server: grpc.Server
let member: Member
let answer: Answer

beforeEach(async () => {
  server = new grpc.Server()
  const bytes = (value: Buffer): Buffer => value
  const txn = {
    ...{ path: '/etcdserverpb.KV/Txn', requestStream: false, responseStream: false },
    ...{ requestSerialize: bytes, requestDeserialize: bytes },
    ...{ responseSerialize: bytes, responseDeserialize: bytes },
  }
  server.addService({ txn }, { txn: (_: unknown, reply: Parameters<Answer>[0]) => answer(reply) })
  const insecure = grpc.ServerCredentials.createInsecure()
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', insecure, (error, bound) =>
      error ? reject(error) : resolve(bound),
    )
  })
  member = new Member(`127.0.0.1:${port}`, null)
})

afterEach(() => {
  member.close()
  server.forceShutdown()
})

const NOTHING = { compare: [], success: [], failure: [] }
const LONG_MS = 30_000

it('answers what the member says', async () => {
  answer = (reply) => reply(null, Buffer.from([0x0a, 0x02, 0x18, 0x07, 0x10, 0x01]))
  const told = await member.call('Txn', NOTHING, LONG_MS)
  expect(told).toMatchObject({ header: { revision: '7' }, succeeded: true })
})

// Thrown in a callback of gRPC it would end the process.
it('rejects with an unknown outcome when an answer cannot be read', async () => {
  answer = (reply) => reply(null, Buffer.from([0x0a, 0x7f]))
  await expect(member.call('Txn', NOTHING, LONG_MS)).rejects.toMatchObject({
    ...{ code: grpc.status.INTERNAL, details: expect.stringContaining('index out of range') },
  })
})

it('rejects with the code and the words of the member', async () => {
  answer = (reply) => reply({ code: grpc.status.NOT_FOUND, details: 'etcdserver: no such lease' })
  await expect(member.call('Txn', NOTHING, LONG_MS)).rejects.toMatchObject({
    ...{ code: grpc.status.NOT_FOUND, details: 'etcdserver: no such lease' },
  })
})

it('gives up at its deadline', async () => {
  answer = () => undefined
  await expect(member.call('Txn', NOTHING, 100)).rejects.toMatchObject({
    code: grpc.status.DEADLINE_EXCEEDED,
  })
})

it('rejects when it has been closed', async () => {
  member.close()
  await expect(member.call('Txn', NOTHING, LONG_MS)).rejects.toThrow()
})
