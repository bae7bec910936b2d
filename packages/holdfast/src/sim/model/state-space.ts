/**
 * The states that a search has met: packed into words, each once, with the one it came from.
 *
 * A state is a short array of small numbers: one block for each node, and what the nodes share. A
 * block is packed into one word and the rest into a last one. The words of the nodes are sorted, so
 * that states which differ in the names of the nodes alone are one: no rule of the protocol looks at
 * a node's name. Compared are whole words, never hashes alone, so that no state is taken for another.
 */
import { assert } from '../../core/assert.ts'

export const NODES = 3
const WORDS = NODES + 1
const WORD_BITS = 32
const CAPACITY_FIRST = 1 << 16
/** Free places are a half at least: the search for one is short. */
const PLACES_PER_STATE = 2

/** How many bits each number of a state has; a block and the shared numbers fill a word at most. */
export interface Layout {
  readonly node: readonly number[]
  readonly shared: readonly number[]
}

export class StateSpace {
  readonly #layout: Layout
  readonly #packed = new Int32Array(WORDS)
  #words = new Int32Array(CAPACITY_FIRST * WORDS)
  #parents = new Int32Array(CAPACITY_FIRST)
  /** The number of a state plus one; 0 is a free place. */
  #places = new Int32Array(CAPACITY_FIRST * PLACES_PER_STATE)
  #count = 0

  constructor(layout: Layout) {
    for (const bits of [layout.node, layout.shared]) {
      assert(sum(bits) <= WORD_BITS, 'a block of a state fits into a word')
    }
    this.#layout = layout
  }

  get count(): number {
    return this.#count
  }

  /** How many numbers a state has. */
  get length(): number {
    return this.#layout.node.length * NODES + this.#layout.shared.length
  }

  /** @returns its number, the old one when it was there before. */
  add(state: Uint8Array, parent: number): number {
    this.#pack(state)
    const place = this.#placeOf(this.#packed)
    const found = this.#places[place] as number
    if (found !== 0) return found - 1
    if (this.#count === this.#parents.length) {
      this.#grow()
      return this.add(state, parent)
    }
    this.#words.set(this.#packed, this.#count * WORDS)
    this.#parents[this.#count] = parent
    this.#count += 1
    this.#places[place] = this.#count
    return this.#count - 1
  }

  /** Writes the state of that number into `state`. */
  read(index: number, state: Uint8Array): void {
    const { node, shared } = this.#layout
    let at = 0
    for (let word = 0; word < WORDS; word++) {
      let rest = this.#words[index * WORDS + word] as number
      for (const bits of word < NODES ? node : shared) {
        state[at++] = rest & ((1 << bits) - 1)
        rest >>>= bits
      }
    }
  }

  /** Whether it is that one, but for the names of nodes. */
  isAt(index: number, state: Uint8Array): boolean {
    this.#pack(state)
    return this.#packed.every((word, at) => word === this.#words[index * WORDS + at])
  }

  /** From a first state to that one. */
  path(index: number): number[] {
    const path: number[] = []
    for (let at = index; at >= 0; at = this.#parents[at] as number) path.unshift(at)
    return path
  }

  #pack(state: Uint8Array): void {
    const { node, shared } = this.#layout
    const packed = this.#packed
    let at = 0
    for (let word = 0; word < WORDS; word++) {
      const widths = word < NODES ? node : shared
      let [value, shift] = [0, 0]
      for (let field = 0; field < widths.length; field++) {
        const bits = widths[field] as number
        const number = state[at++] as number
        if (number >>> bits !== 0)
          throw new RangeError(`a number of a state needs over ${bits} bits`)
        value |= number << shift
        shift += bits
      }
      packed[word] = value
    }
    order(packed, 0, 1)
    order(packed, 1, 2)
    order(packed, 0, 1)
  }

  /** Where it is, or where it belongs. */
  #placeOf(words: Int32Array): number {
    const mask = this.#places.length - 1
    let place = hash(words) & mask
    for (;;) {
      const found = this.#places[place] as number
      if (found === 0) return place
      const at = (found - 1) * WORDS
      if (
        this.#words[at] === words[0] &&
        this.#words[at + 1] === words[1] &&
        this.#words[at + 2] === words[2] &&
        this.#words[at + 3] === words[3]
      ) {
        return place
      }
      place = (place + 1) & mask
    }
  }

  #grow(): void {
    const capacity = this.#parents.length * 2
    this.#words = extended(this.#words, capacity * WORDS)
    this.#parents = extended(this.#parents, capacity)
    this.#places = new Int32Array(capacity * PLACES_PER_STATE)
    for (let index = 0; index < this.#count; index++) {
      const words = this.#words.subarray(index * WORDS, (index + 1) * WORDS)
      this.#places[this.#placeOf(words)] = index + 1
    }
  }
}

function order(words: Int32Array, low: number, high: number): void {
  const [one, two] = [words[low] as number, words[high] as number]
  if (one <= two) return
  words[low] = two
  words[high] = one
}

/** Multiplied by large odd numbers and folded: the low bits depend on all of them. */
function hash(words: Int32Array): number {
  let mixed = 0
  for (let at = 0; at < WORDS; at++) {
    mixed = Math.imul(mixed ^ (words[at] as number), 0x9e3779b1)
    mixed ^= mixed >>> 15
  }
  mixed = Math.imul(mixed, 0x85ebca6b)
  return mixed ^ (mixed >>> 13)
}

function extended(array: Int32Array, length: number): Int32Array<ArrayBuffer> {
  const longer = new Int32Array(length)
  longer.set(array)
  return longer
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, one) => total + one, 0)
}
