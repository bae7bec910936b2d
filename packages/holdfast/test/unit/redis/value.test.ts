import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TOKEN_MAX } from '../../../src/core/token.ts'
import {
  foreignInfoOf,
  holderOf,
  lockInfoOf,
  metadataOf,
  ownerMark,
  padToken,
  proclaimed,
  VALUE_BYTES_MAX,
} from '../../../src/wire/value.ts'

const OWNER = 'AbCdEfGhIjKlMnOpQrStUg'
/** What scripts put before the metadata; the longest is that of a revoke. */
const HEAD = `${ownerMark(OWNER)}${padToken(TOKEN_MAX)}:{"s":1796037132807512`
const LONGEST_HEAD = `${HEAD},"r":"${padToken(TOKEN_MAX)}","d":86400000`

function textUpTo(bytesMax: number): fc.Arbitrary<string> {
  return fc
    .array(fc.oneof(fc.string({ unit: 'grapheme' }), fc.string({ unit: 'binary' })), {
      maxLength: 200,
    })
    .map((parts) => {
      let text = ''
      for (const part of parts) {
        if (Buffer.byteLength(text + part) > bytesMax) break
        text += part
      }
      return text
    })
    .filter((text) => text.isWellFormed())
}

describe('the value of a lock', () => {
  it('begins with the owner and a token of 19 digits, and goes on with JSON', () => {
    expect(ownerMark(OWNER)).toBe(`hf1:${OWNER}:`)
    expect(padToken(7n)).toBe('0000000000000000007')
    expect(padToken(TOKEN_MAX)).toBe('9223372036854775807')
    const holder = { host: 'web-1', pid: 42, label: 'nightly', value: 'http://web-1' }
    expect(metadataOf(holder, 500)).toBe(
      ',"d":500,"h":"web-1","p":42,"l":"nightly","v":"http://web-1"}',
    )
    expect(metadataOf({ host: 'web-1', pid: 42 }, 0)).toBe(',"h":"web-1","p":42}')
  })

  // A label with a quote broke the format, and with it the lock; one of control characters took six
  // times its length.
  it('brings back every label and value that is allowed, within its size', () => {
    fc.assert(
      fc.property(textUpTo(256), textUpTo(512), textUpTo(64), (label, value, host) => {
        const holder = { host, pid: 4_194_304, label, value }
        const metadata = metadataOf(holder, 86_400_000)
        expect(Buffer.byteLength(LONGEST_HEAD + metadata)).toBeLessThanOrEqual(VALUE_BYTES_MAX)
        expect(holderOf(`{"s":1${metadata}`)).toEqual(holder)
      }),
      { numRuns: 300 },
    )
  })

  it.each([
    ['quotes', '"'],
    ['backslashes', '\\'],
    ['control characters', '\u0001'],
    ['control characters and letters', '\u0001a'],
  ])('has room for a full label and value of %s', (_, unit) => {
    const label = unit.repeat(256).slice(0, 256)
    const value = unit.repeat(512).slice(0, 512)
    const holder = { host: 'h'.repeat(64), pid: 4_194_304, label, value }
    const metadata = metadataOf(holder, 86_400_000)
    expect(Buffer.byteLength(LONGEST_HEAD + metadata)).toBeLessThanOrEqual(VALUE_BYTES_MAX)
    expect(holderOf(`{"s":1${metadata}`)).toEqual(holder)
  })

  it('is refused before it is sent when it would be too long', () => {
    const holder = { host: 'h', pid: 1, value: 'x'.repeat(4000) }
    expect(() => metadataOf(holder, 0)).toThrow(expect.objectContaining({ option: 'holder' }))
    const tooLong = 'é'.repeat(257)
    expect(() => proclaimed(tooLong)).toThrow(expect.objectContaining({ option: 'value' }))
    expect(proclaimed('é'.repeat(256))).toBe(`,"v":"${'é'.repeat(256)}"`)
    expect(proclaimed('\u0000')).toBe(',"V":"AA=="')
  })

  it('is shown without its owner', () => {
    const metadata = '{"s":1796037132807512,"h":"web-1","p":42,"l":"nightly"}'
    expect(lockInfoOf('k', 1234, padToken(7n), metadata)).toEqual({
      lockName: 'k',
      fencingToken: 7n,
      holder: { host: 'web-1', pid: 42, label: 'nightly' },
      foreignOwner: null,
      sinceAtMs: 1_796_037_132_807,
      remainingMs: 1234,
      contenderCount: null,
    })
    expect(foreignInfoOf('k', 5, 'other program')).toEqual({
      lockName: 'k',
      fencingToken: null,
      holder: null,
      foreignOwner: 'other program',
      sinceAtMs: null,
      remainingMs: 5,
      contenderCount: null,
    })
  })

  // Anybody who can write to the server can write this.
  it.each(['', '{}', 'null', '[]', '7', '{"h":1,"p":2}', '{"h":"x"}', '{"s":1,"h":"cut o'])(
    'shows no holder for %j',
    (metadata) => {
      expect(holderOf(metadata)).toBeNull()
      expect(lockInfoOf('k', 1, padToken(1n), metadata).holder).toBeNull()
    },
  )
})
