/**
 * The messages of gRPC in the bytes of a connection, as far as the lab has to know them: which stream one
 * belongs to, and what it is made of. It reads frames of HTTP/2 (RFC 9113, section 4.1) without padding, and
 * messages that lie in one DATA frame each, which all do that are shorter than 16 KiB.
 */

/** One direction of one connection. */
export class Http2Data {
  readonly #heard: (stream: number, message: Buffer) => void
  #rest: Buffer = Buffer.alloc(0)
  #isOpen: boolean

  /** @param isFromClient A client says first that it speaks HTTP/2. */
  constructor(isFromClient: boolean, heard: (stream: number, message: Buffer) => void) {
    this.#isOpen = !isFromClient
    this.#heard = heard
  }

  /** Bytes as they come, in any pieces. */
  take(bytes: Uint8Array): void {
    let rest = Buffer.concat([this.#rest, bytes])
    if (!this.#isOpen && rest.length >= PREFACE_BYTES) {
      rest = rest.subarray(PREFACE_BYTES)
      this.#isOpen = true
    }
    while (this.#isOpen && rest.length >= HEADER_BYTES) {
      const end = HEADER_BYTES + rest.readUIntBE(0, 3)
      if (rest.length < end) break
      // The highest bit of the number is reserved.
      const stream = rest.readUInt32BE(5) & 0x7fffffff
      if (rest[3] === DATA) this.#unpack(stream, rest.subarray(HEADER_BYTES, end))
      rest = rest.subarray(end)
    }
    this.#rest = rest
  }

  /** A flag, the length, the message; more than one may lie in a frame. */
  #unpack(stream: number, data: Buffer): void {
    for (let at = 0; at + PREFIX_BYTES <= data.length; ) {
      const end = at + PREFIX_BYTES + data.readUInt32BE(at + 1)
      if (end > data.length) return
      this.#heard(stream, data.subarray(at + PREFIX_BYTES, end))
      at = end
    }
  }
}

const PREFACE_BYTES = 24
const HEADER_BYTES = 9
const PREFIX_BYTES = 5
const DATA = 0

const VARINT = 0
const LENGTH = 2

/**
 * The fields of a message that are whole numbers, by their numbers; of others there is null.
 *
 * @returns null: it is no such message, or one with fields that are neither numbers nor bytes.
 */
export function numbersIn(message: Uint8Array): ReadonlyMap<number, bigint | null> | null {
  const fields = new Map<number, bigint | null>()
  let at = 0
  const varint = (): bigint | null => {
    let value = 0n
    for (let shift = 0n; at < message.length; shift += 7n) {
      const byte = message[at++] as number
      value |= BigInt(byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    return null
  }
  while (at < message.length) {
    const tag = varint()
    const value = varint()
    if (tag === null || value === null) return null
    const kind = Number(tag & 7n)
    if (kind !== VARINT && kind !== LENGTH) return null
    if (kind === LENGTH) at += Number(value)
    fields.set(Number(tag >> 3n), kind === VARINT ? value : null)
  }
  return at === message.length ? fields : null
}
