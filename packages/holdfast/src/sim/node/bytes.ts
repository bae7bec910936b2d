/**
 * Redis and Lua count bytes, JavaScript counts UTF-16 units. A node therefore keeps texts as strings
 * of characters 0 to 255, one for each byte of the UTF-8 form; clients translate on both ways.
 */
import { createHash } from 'node:crypto'

export type Bytes = string

/** Most texts: they are the same in both forms. */
const ASCII = /^[\0-\x7f]*$/

export function toBytes(text: string | number): Bytes {
  const string = String(text)
  return ASCII.test(string) ? string : Buffer.from(string, 'utf8').toString('latin1')
}

/** Bytes that are no UTF-8 become U+FFFD, as in the clients. */
export function toText(bytes: Bytes): string {
  return ASCII.test(bytes) ? bytes : Buffer.from(bytes, 'latin1').toString('utf8')
}

/** 40 hexadecimal digits. */
export function sha1(bytes: Bytes): string {
  return createHash('sha1').update(bytes, 'latin1').digest('hex')
}
