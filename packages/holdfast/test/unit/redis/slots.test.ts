import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import { slotOf, tagOf } from '../../../src/wire/slots.ts'

/** By another program: `binascii.crc_hqx` of Python, and 31C3 of the specification. */
const SLOTS: readonly (readonly [key: string, slot: number])[] = [
  ['123456789', 0x31c3],
  ['', 0],
  ['lock:a', 6035],
  ['lock:wallet:42', 10_000],
  ['lock:{a}b', 15_495],
  ['x{a}y{b}', 15_495],
  ['lock:a{}b{c}', 3423],
  ['lock:a{b', 12_665],
  ['lock:a}b{c}', 7365],
  ['lock:{{a}}', 10_276],
  ['lock:锁', 11_843],
  ['lock:{锁}1', 11_046],
]

it.each(SLOTS)('the slot of "%s" is %i', (key, slot) => {
  expect(slotOf(key)).toBe(slot)
})

// The accident: a version with another tag for a slot counts tokens in another key, and they fall.
it('the tags are those that they always were, one for each slot and in it', () => {
  const tags = Array.from({ length: 16_384 }, (_, slot) => tagOf(slot))

  expect(tags.every((tag, slot) => slotOf(tag) === slot)).toBe(true)
  expect(tags.every((tag) => /^[0-9A-Za-z]{3}$/.test(tag))).toBe(true)
  expect([tags[0], tags[1], tags[16_383]]).toEqual(['06S', '2Gx', '6ZJ'])
  expect(createHash('sha256').update(tags.join('')).digest('hex')).toBe(
    '22a382faa224f82f4fd294f364728a852b2994681d661858723892c5c1dceb09',
  )
})
