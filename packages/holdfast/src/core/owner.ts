/** The only caller of randomness in this package: who an attempt is, and how far waits spread. */
import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import type { HolderInfo } from './backend.ts'

/** 16 random bytes in base64url: 22 characters. */
export const OWNER_LENGTH = 22

const OWNER_BYTES = 16
/** Asking the system for randomness costs more than all the rest of an owner, so it is asked rarely. */
const STOCK_OWNERS = 64

let stock: Buffer = Buffer.alloc(0)
let stockUsed = 0

/**
 * A fresh owner: 22 characters, base64url, 128 random bits.
 *
 * One for each attempt, never one per client: a delayed clean-up of attempt 1 would otherwise
 * delete the lock of attempt 2.
 */
export function randomOwner(): string {
  if (stockUsed === stock.length) {
    stock = randomBytes(OWNER_BYTES * STOCK_OWNERS)
    stockUsed = 0
  }
  stockUsed += OWNER_BYTES
  return stock.toString('base64url', stockUsed - OWNER_BYTES, stockUsed)
}

/** Uniform in [0, 1). */
export function randomJitter(): number {
  return Math.random()
}

/** Bytes of a host name that travel in a lock's value; the rest is cut. */
const HOST_BYTES_MAX = 64

/** Who this process is, for people who read a listing. Never part of an ownership check. */
export function thisProcess(host: string = hostname()): Pick<HolderInfo, 'host' | 'pid'> {
  return { host: cutUtf8(host, HOST_BYTES_MAX), pid: process.pid }
}

/** The longest prefix of whole characters that fits into `bytesMax` bytes of UTF-8. */
export function cutUtf8(text: string, bytesMax: number): string {
  if (Buffer.byteLength(text) <= bytesMax) return text
  let cut = ''
  let bytes = 0
  for (const character of text) {
    bytes += Buffer.byteLength(character)
    if (bytes > bytesMax) break
    cut += character
  }
  return cut
}
