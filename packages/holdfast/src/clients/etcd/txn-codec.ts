/**
 * The bytes of a transaction and of its answer, which every acquire and every release is: protobuf's wire
 * format (protobuf.dev, Encoding), the fields of descriptor.ts. A test compares it with what
 * @grpc/proto-loader makes of the same messages.
 *
 * By hand, because proto-loader makes three objects of each message on its way: a fifth of what the client
 * spends on a pair. Of a header only `revision` and `raft_term` are read.
 *
 * Requests are written from their end to their beginning, so that the length of a part is known where it
 * has to be written: before it.
 */
import type {
  Compare,
  Header,
  KeyValue,
  Operation,
  RangeResponse,
  TxnRequest,
  TxnResponse,
} from './messages.ts'

const VARINT = 0
const FIXED64 = 1
const BYTES = 2
const FIXED32 = 5

const SCRATCH_BYTES = 4096
/** Decimal digits that a JavaScript number holds exactly. */
const DIGITS_EXACT = 15
/** Seven bits a byte: so many bytes of a varint a JavaScript number holds exactly. */
const VARINT_BYTES_EXACT = 7
const VARINT_BYTES_MAX = 10

let scratch: Buffer = Buffer.allocUnsafeSlow(SCRATCH_BYTES)
/** Where the first byte stands that has been written. */
let start = SCRATCH_BYTES
let lastLong = ''
let lastLongBytes: readonly number[] = []

/** The result is the caller's own. */
export function encodeTxn({ compare, success, failure }: TxnRequest): Buffer {
  start = scratch.length
  writeOperations(failure, 3)
  writeOperations(success, 2)
  for (let index = compare.length - 1; index >= 0; index--) {
    const end = scratch.length - start
    writeCompare(compare[index] as Compare)
    writeHead(1, end)
  }
  return Buffer.from(scratch.subarray(start))
}

function writeOperations(operations: readonly Operation[], field: number): void {
  for (let index = operations.length - 1; index >= 0; index--) {
    const end = scratch.length - start
    writeOperation(operations[index] as Operation)
    writeHead(field, end)
  }
}

function writeOperation(operation: Operation): void {
  const end = scratch.length - start
  if ('request_range' in operation) {
    const { key, range_end, limit, revision, sort_order, sort_target, keys_only } =
      operation.request_range
    writeNumber(8, keys_only === true ? 1 : 0)
    writeNumber(6, sort_target ?? 0)
    writeNumber(5, sort_order ?? 0)
    if (revision !== undefined) writeDecimal(4, revision)
    writeNumber(3, limit ?? 0)
    writeBytes(2, range_end)
    writeBytes(1, key)
    writeHead(1, end)
  } else if ('request_put' in operation) {
    const { key, value, lease, ignore_value, ignore_lease } = operation.request_put
    writeNumber(6, ignore_lease === true ? 1 : 0)
    writeNumber(5, ignore_value === true ? 1 : 0)
    if (lease !== undefined) writeDecimal(3, lease)
    writeBytes(2, value)
    writeBytes(1, key)
    writeHead(2, end)
  } else {
    const { key, range_end } = operation.request_delete_range
    writeBytes(2, range_end)
    writeBytes(1, key)
    writeHead(3, end)
  }
}

function writeCompare(compare: Compare): void {
  writeBytes(64, compare.range_end)
  // Also a 0: which of the two is there says what is compared.
  if (compare.mod_revision !== undefined) writeDecimal(6, compare.mod_revision)
  if (compare.create_revision !== undefined) writeDecimal(5, compare.create_revision)
  writeBytes(3, compare.key)
  writeNumber(2, compare.target)
  writeNumber(1, compare.result)
}

/** @param end How many bytes there were behind the part. */
function writeHead(field: number, end: number): void {
  writeVarint(scratch.length - start - end)
  writeVarint(field * 8 + BYTES)
}

function writeBytes(field: number, bytes: Buffer | undefined): void {
  if (bytes === undefined) return
  const end = scratch.length - start
  reserve(bytes.length)
  start -= bytes.length
  bytes.copy(scratch, start)
  writeHead(field, end)
}

/** A 0 is what is meant by nothing. */
function writeNumber(field: number, value: number): void {
  if (value === 0) return
  writeVarint(value)
  writeVarint(field * 8 + VARINT)
}

function writeDecimal(field: number, text: string): void {
  if (text.length <= DIGITS_EXACT && !text.startsWith('-')) writeVarint(Number(text))
  else writeLong(text)
  writeVarint(field * 8 + VARINT)
}

/** @param value A safe integer, not negative. */
function writeVarint(value: number): void {
  let size = 1
  for (let rest = value; rest >= 0x80; rest = Math.floor(rest / 0x80)) size += 1
  reserve(size)
  start -= size
  let rest = value
  for (let index = start; index < start + size - 1; index++) {
    scratch[index] = (rest % 0x80) + 0x80
    rest = Math.floor(rest / 0x80)
  }
  scratch[start + size - 1] = rest
}

/** What is as long as that is mostly the lease of the one session, again and again. */
function writeLong(text: string): void {
  if (text !== lastLong) {
    const bytes: number[] = []
    let rest = BigInt.asUintN(64, BigInt(text))
    for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) + 0x80)
    bytes.push(Number(rest))
    lastLong = text
    lastLongBytes = bytes
  }
  reserve(lastLongBytes.length)
  start -= lastLongBytes.length
  scratch.set(lastLongBytes, start)
}

/** Room for so many bytes more. */
function reserve(bytes: number): void {
  if (bytes <= start) return
  const written = scratch.subarray(start)
  const larger = Buffer.allocUnsafeSlow(2 * scratch.length + bytes)
  start = larger.length - written.length
  written.copy(larger, start)
  scratch = larger
}

/** @throws Error when these are not the bytes of a whole answer. */
export function decodeTxn(bytes: Buffer): TxnResponse {
  const reader = new Reader(bytes)
  let header: Header = {}
  let succeeded = false
  const responses: Answer[] = []
  while (reader.next()) {
    if (reader.field === 1) header = readHeader(reader.part())
    else if (reader.field === 2) succeeded = reader.number() !== 0
    else if (reader.field === 3) responses.push(readResponse(reader.part()))
    else reader.skip()
  }
  return { header, succeeded, responses }
}

type Answer = NonNullable<TxnResponse['responses']>[number]

function readHeader(reader: Reader): Header {
  const header: { revision?: string; raft_term?: string } = {}
  while (reader.next()) {
    if (reader.field === 3) header.revision = reader.decimal()
    else if (reader.field === 4) header.raft_term = reader.decimal()
    else reader.skip()
  }
  return header
}

function readResponse(reader: Reader): Answer {
  let answer: Answer = {}
  while (reader.next()) {
    if (reader.field === 1) answer = { response_range: readRange(reader.part()) }
    else reader.skip()
  }
  return answer
}

function readRange(reader: Reader): RangeResponse {
  const kvs: KeyValue[] = []
  let more = false
  let count = '0'
  while (reader.next()) {
    if (reader.field === 2) kvs.push(readKeyValue(reader.part()))
    else if (reader.field === 3) more = reader.number() !== 0
    else if (reader.field === 4) count = reader.decimal()
    else reader.skip()
  }
  return { kvs, more, count }
}

function readKeyValue(reader: Reader): KeyValue {
  let key: Buffer = Buffer.alloc(0)
  let create_revision = '0'
  let mod_revision = '0'
  const more: { value?: Buffer; lease?: string } = {}
  while (reader.next()) {
    if (reader.field === 1) key = reader.bytes()
    else if (reader.field === 2) create_revision = reader.decimal()
    else if (reader.field === 3) mod_revision = reader.decimal()
    else if (reader.field === 5) more.value = reader.bytes()
    else if (reader.field === 6) more.lease = reader.decimal()
    else reader.skip()
  }
  return { key, create_revision, mod_revision, ...more }
}

/** Goes through the fields of one message. */
class Reader {
  field = 0
  #wireType = 0
  readonly #bytes: Buffer
  #at: number
  readonly #end: number

  constructor(bytes: Buffer, at = 0, end: number = bytes.length) {
    this.#bytes = bytes
    this.#at = at
    this.#end = end
  }

  /** False: that was the last one. */
  next(): boolean {
    if (this.#at === this.#end) return false
    const tag = this.number()
    this.field = tag >>> 3
    this.#wireType = tag & 7
    return true
  }

  /** @throws where it has more than 49 bits, which no tag, length or flag has. */
  number(): number {
    const value = this.#varint()
    if (typeof value === 'number') return value
    throw new Error('a number that is too large')
  }

  decimal(): string {
    return this.#varint().toString()
  }

  part(): Reader {
    const [from, to] = this.#span()
    return new Reader(this.#bytes, from, to)
  }

  bytes(): Buffer {
    const [from, to] = this.#span()
    return this.#bytes.subarray(from, to)
  }

  /** Past what this version does not know. */
  skip(): void {
    if (this.#wireType === VARINT) while (this.#byte() >= 0x80);
    else if (this.#wireType === BYTES) this.#span()
    else if (this.#wireType === FIXED64) this.#advance(8)
    else if (this.#wireType === FIXED32) this.#advance(4)
    else throw new Error(`a field of the wire type ${this.#wireType}, which is not known`)
  }

  #byte(): number {
    this.#advance(1)
    return this.#bytes[this.#at - 1] as number
  }

  #varint(): number | bigint {
    let value = 0
    let factor = 1
    for (let size = 1; size <= VARINT_BYTES_EXACT; size++) {
      const byte = this.#byte()
      value += (byte & 0x7f) * factor
      if (byte < 0x80) return value
      factor *= 0x80
    }
    return this.#long(BigInt(value))
  }

  #long(low: bigint): bigint {
    let value = low
    for (let size = VARINT_BYTES_EXACT; size < VARINT_BYTES_MAX; size++) {
      const byte = this.#byte()
      value += BigInt(byte & 0x7f) << BigInt(7 * size)
      if (byte < 0x80) return BigInt.asIntN(64, value)
    }
    throw new Error('a number of more than 64 bits')
  }

  #span(): [from: number, to: number] {
    if (this.#wireType !== BYTES) throw new Error('a field that should have a length has none')
    const length = this.number()
    this.#advance(length)
    return [this.#at - length, this.#at]
  }

  #advance(count: number): void {
    if (count > this.#end - this.#at) throw new Error('the answer is cut off')
    this.#at += count
  }
}
