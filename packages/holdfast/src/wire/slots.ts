/**
 * The 16,384 slots of a Redis Cluster, and a short text for each that lies in it.
 *
 * A key's slot is CRC16 of it modulo 16,384, or of what stands between its first `{` and the next
 * `}`, if that is not empty (Redis Cluster specification, "Hash tags"; CRC16 is the one called
 * XMODEM: polynomial 0x1021, no reflection, starts at 0).
 *
 * The text of a slot, its tag, is the first of 000, 001, … zzz, counted in base 62, that lies in it.
 * The 69,127th is the last that is needed. Put in braces it takes a helper key to the slot of a lock
 * whose own key is plain. The table takes 64 kB, and 4 to 7 ms once, at the first lock of a process
 * that uses a cluster. Trying tags anew for each name would take thousands of steps each time, and a
 * hash of the lock's name in braces would lie in any slot.
 */
import { assert } from '../core/assert.ts'

const SLOTS = 16_384
const DIGITS = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const POLYNOMIAL = 0x1021

/** By the byte that leaves. */
const STEPS: Uint16Array = new Uint16Array(256).map((_, byte) => {
  let rest = byte << 8
  for (let bit = 0; bit < 8; bit++) rest = rest & 0x8000 ? (rest << 1) ^ POLYNOMIAL : rest << 1
  return rest
})

function step(crc: number, byte: number): number {
  return ((crc << 8) & 0xffff) ^ (STEPS[(crc >> 8) ^ byte] ?? 0)
}

/** The slot of a key as the server gets it. */
export function slotOf(key: string): number {
  let crc = 0
  for (const byte of Buffer.from(hashedPartOf(key), 'utf8')) crc = step(crc, byte)
  return crc % SLOTS
}

/** Braces are the same bytes in UTF-8, and no other character contains them. */
function hashedPartOf(key: string): string {
  const open = key.indexOf('{')
  if (open === -1) return key
  const close = key.indexOf('}', open + 1)
  return close === -1 || close === open + 1 ? key : key.slice(open + 1, close)
}

/**
 * Whether a key that begins with `prefix` and goes on with a tag in braces lies in the tag's slot, or
 * else in that of every key with this prefix. If not, a brace of the prefix changes what the later
 * ones mean.
 */
export function leavesTagsAlone(prefix: string): boolean {
  const open = prefix.indexOf('{')
  return open === -1 || prefix.indexOf('}', open + 1) > open + 1
}

let tagNumbers: Uint32Array | null = null

/** Three characters whose slot is this one. */
export function tagOf(slot: number): string {
  assert(Number.isInteger(slot) && slot >= 0 && slot < SLOTS, 'a slot is 0 to 16,383')
  tagNumbers ??= numberTags()
  const number = tagNumbers[slot] ?? 0
  const base = DIGITS.length
  const places = [Math.floor(number / base ** 2), Math.floor(number / base) % base, number % base]
  return places.map((place) => DIGITS[place]).join('')
}

/** By slot, the number that its tag is in base 62. */
function numberTags(): Uint32Array {
  const found = new Uint32Array(SLOTS)
  const isFound = new Uint8Array(SLOTS)
  let missing = SLOTS
  let number = 0
  const codes = new Uint8Array(Buffer.from(DIGITS))
  // By index: an iterator for each of the 69,127 steps takes several times as long.
  for (let high = 0; high < codes.length * codes.length && missing > 0; high++) {
    const first = codes[Math.floor(high / codes.length)] ?? 0
    const crc = step(step(0, first), codes[high % codes.length] ?? 0)
    for (let low = 0; low < codes.length; low++, number++) {
      const slot = step(crc, codes[low] ?? 0) % SLOTS
      if (isFound[slot] !== 0) continue
      isFound[slot] = 1
      found[slot] = number
      missing -= 1
    }
  }
  assert(missing === 0, 'three characters reach every slot')
  return found
}
