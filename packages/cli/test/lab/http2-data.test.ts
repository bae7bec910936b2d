import { describe, expect, test } from 'vitest'
import { Http2Data, numbersIn } from '../../src/lab/scenarios/watchdog/http2-data.ts'

/** A frame of HTTP/2: length, kind, flags, stream, what is in it. */
function frame(kind: number, stream: number, content: Uint8Array): Buffer {
  const header = Buffer.alloc(9)
  header.writeUIntBE(content.length, 0, 3)
  header[3] = kind
  header.writeUInt32BE(stream, 5)
  return Buffer.concat([header, content])
}

/** As gRPC puts one into a DATA frame. */
function packed(message: Uint8Array): Buffer {
  const prefix = Buffer.alloc(5)
  prefix.writeUInt32BE(message.length, 1)
  return Buffer.concat([prefix, message])
}

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const [DATA, HEADERS, SETTINGS] = [0, 1, 4]
const ask = Buffer.from([0x08, 0x96, 0x01])

describe('messages on a connection', () => {
  const connection = Buffer.concat([
    PREFACE,
    frame(SETTINGS, 0, Buffer.alloc(6)),
    frame(HEADERS, 1, Buffer.from('0x08 as text')),
    frame(DATA, 1, packed(ask)),
    // The reserved bit of a stream's number says nothing.
    frame(DATA, 0x80000003, Buffer.concat([packed(Buffer.from('one')), packed(Buffer.alloc(0))])),
    frame(DATA, 1, Buffer.alloc(0)),
  ])

  test.each([1, 2, 3, 7, 8, 9, 23, 24, 25, 1_000])('are found in pieces of %i bytes', (size) => {
    // A piece may end anywhere: in the preface, in a header, in a message.
    const heard: [number, string][] = []
    const data = new Http2Data(true, (stream, message) =>
      heard.push([stream, message.toString('hex')]),
    )
    for (let at = 0; at < connection.length; at += size) {
      data.take(connection.subarray(at, at + size))
    }
    expect(heard).toEqual([
      [1, '089601'],
      [3, Buffer.from('one').toString('hex')],
      [3, ''],
    ])
  })

  test('of a server begin without a preface', () => {
    const heard: number[] = []
    new Http2Data(false, (stream) => heard.push(stream)).take(frame(DATA, 5, packed(ask)))
    expect(heard).toEqual([5])
  })
})

describe('numbers in a message', () => {
  test('are read whole, also those of 64 bits', () => {
    const id = 0x7fff_ffff_ffff_fff1n
    const bytes = [0x08]
    for (let rest = id; rest > 0n; rest >>= 7n) {
      bytes.push(Number(rest & 0x7fn) | (rest > 0x7fn ? 0x80 : 0))
    }
    expect([...(numbersIn(Uint8Array.from(bytes)) ?? [])]).toEqual([[1, id]])
  })

  test('stand beside bytes, which are skipped', () => {
    // header { … }, ID, TTL: what a keep-alive is answered with.
    const answer = Uint8Array.from([0x0a, 0x02, 0x18, 0x09, 0x10, 0x2a, 0x18, 0x02])
    expect([...(numbersIn(answer) ?? [])]).toEqual([
      [1, null],
      [2, 42n],
      [3, 2n],
    ])
  })

  test.each<[string, number[]]>([
    ['ends within a number', [0x08, 0x96]],
    ['ends within its bytes', [0x0a, 0x05, 0x00]],
    ['has a field of another kind', [0x0d, 0, 0, 0, 0]],
  ])('are none where it %s', (_what, bytes) => {
    expect(numbersIn(Uint8Array.from(bytes))).toBeNull()
  })
})
