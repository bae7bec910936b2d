import { hostname } from 'node:os'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { cutUtf8, randomJitter, randomOwner, thisProcess } from '../../../src/core/owner.ts'

describe('an owner', () => {
  // Two attempts with one owner delete each other's lock.
  it('is 22 characters of base64url, and 10,000 of them are distinct', () => {
    const owners = Array.from({ length: 10_000 }, () => randomOwner())
    expect(owners.filter((owner) => !/^[\w-]{22}$/.test(owner))).toEqual([])
    expect(new Set(owners).size).toBe(owners.length)
  })

  // Owners share one stock of randomness: taken at the wrong distance they would share bytes, and
  // be distinct all the same.
  it('has 16 bytes that no neighbour has', () => {
    const owners = Array.from({ length: 1_000 }, () => Buffer.from(randomOwner(), 'base64url'))
    expect(new Set(owners.map(({ length }) => length))).toEqual(new Set([16]))
    const halves = owners.flatMap((owner) => [
      owner.toString('hex', 0, 8),
      owner.toString('hex', 8),
    ])
    expect(new Set(halves).size).toBe(halves.length)
  })
})

describe('jitter', () => {
  // A wait that is multiplied with 1 or more ends after its deadline, one below 0 before it began;
  // waits that do not differ are no jitter.
  it('lies in [0, 1) and spreads', () => {
    const drawn = Array.from({ length: 10_000 }, () => randomJitter())
    expect(drawn.filter((value) => !(value >= 0 && value < 1))).toEqual([])
    const tenths = new Set(drawn.map((value) => Math.floor(value * 10)))
    expect(tenths.size).toBe(10)
  })
})

describe('a text cut to so many bytes', () => {
  // Half a character in a lock's value is read as U+FFFD, or refused by the store.
  it.each([
    ['fits exactly', 'abcd', 4, 'abcd'],
    ['fits exactly, in bytes and not in characters', 'é漢', 5, 'é漢'],
    ['is one byte too long', 'abcde', 4, 'abcd'],
    ['would be cut inside two bytes', 'abcé', 4, 'abc'],
    ['would be cut after one byte of three', 'ab漢', 3, 'ab'],
    ['would be cut after two bytes of three', 'ab漢', 4, 'ab'],
    ['would be cut between surrogates', 'a\u{1f512}b', 4, 'a'],
    ['has a small character after the one that is cut', 'ab漢c', 4, 'ab'],
    ['is empty', '', 4, ''],
    ['may have no byte', 'é', 0, ''],
  ])('keeps whole characters where it %s', (_, text, bytesMax, cut) => {
    expect(cutUtf8(text, bytesMax)).toBe(cut)
  })

  it('is the longest beginning of whole characters that fits', () => {
    const text = fc.string({ unit: 'grapheme', maxLength: 40 })
    fc.assert(
      fc.property(text, fc.integer({ min: 0, max: 100 }), (whole, bytesMax) => {
        const cut = cutUtf8(whole, bytesMax)
        expect(whole.startsWith(cut)).toBe(true)
        expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(bytesMax)
        const [next] = whole.slice(cut.length)
        if (next === undefined) return
        const longer = cut + String.fromCodePoint(whole.codePointAt(cut.length) ?? 0)
        expect(Buffer.byteLength(longer)).toBeGreaterThan(bytesMax)
      }),
    )
  })
})

describe('what a lock says of its process', () => {
  it('is the name of the host and the process id', () => {
    expect(thisProcess()).toEqual({ host: cutUtf8(hostname(), 64), pid: process.pid })
  })

  // A host name may be any length, and stands in the value of every lock.
  it('has 64 bytes of the host name at most, at a whole character', () => {
    expect(thisProcess('h'.repeat(64)).host).toBe('h'.repeat(64))
    expect(thisProcess('h'.repeat(65)).host).toBe('h'.repeat(64))
    expect(thisProcess(`${'h'.repeat(63)}é`).host).toBe('h'.repeat(63))
  })
})
