/**
 * What the seed decides: names, the order of the arms in each lane, and small delays.
 *
 * Each value is drawn from the seed together with the name of what is drawn, not from a running
 * generator, so that it does not depend on who asked first: rounds run in several lanes at once.
 */
import { createHash } from 'node:crypto'

/** Uniform in [0, 1); the same for the same seed and the same text. */
export function draw(seed: number, what: string): number {
  return digest(seed, what).readUInt32BE(0) / 2 ** 32
}

/** Six hexadecimal digits that make the names of one seed differ from those of another. */
export function drawText(seed: number, what: string): string {
  return digest(seed, what).toString('hex').slice(0, 6)
}

/** The same items in an order that the seed decides. */
export function drawOrder<T>(seed: number, what: string, items: readonly T[]): T[] {
  return items
    .map((item, index) => ({ item, at: draw(seed, `${what}/${index}`) }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item)
}

function digest(seed: number, what: string): Buffer {
  return createHash('sha256').update(`${seed}/${what}`).digest()
}
