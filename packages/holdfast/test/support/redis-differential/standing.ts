/** What stands at the keys of a node at present, as the next request may want to know it. */
import { type Bytes, toText } from '../../../src/sim/node/bytes.ts'
import type { KeySpace } from '../../../src/sim/node/keyspace.ts'
import type { Random } from '../../../src/sim/random.ts'

/** Four times in five the request meets what stands there. */
const MEETS = 0.8

export class Standing {
  /** Few, so that requests of one owner meet. */
  readonly owners: readonly string[]
  readonly #keys: KeySpace
  readonly #random: Random

  constructor(keys: KeySpace, random: Random) {
    this.#keys = keys
    this.#random = random
    this.owners = Array.from({ length: 4 }, () => random.nonce())
  }

  bytesAt(key: string): Bytes {
    return this.#keys.find(Buffer.from(key).toString('latin1'), 0)?.value ?? ''
  }

  valueAt(key: string): string {
    return toText(this.bytesAt(key))
  }

  ownerAt(lock: string): string {
    const owner = this.valueAt(lock).split(':')[1] ?? ''
    return owner.length === 22 && this.#random.chance(MEETS) ? owner : this.owner()
  }

  /** 19 digits. */
  tokenAt(lock: string): string {
    const token = this.valueAt(lock).split(':')[2] ?? ''
    return token.length === 19 && this.#random.chance(MEETS) ? token : '1'.padStart(19, '0')
  }

  owner(): string {
    return this.#random.pick(this.owners)
  }

  /** With a TTL or without, what no script of ours wrote at a lock's key. */
  garbage(): string | Buffer {
    const [owner, token] = [this.owner(), '0001700000000000000']
    return this.#random.pick<string | Buffer>([
      ...['', 'garbage', 'é'.repeat(40), `x${'é'.repeat(40)}`, `hf1:${'-'.repeat(22)}:${token}:{}`],
      ...['hf1:', `hf1:${owner}:`, `hf1:${owner}:12:{`, `hf1:${owner}:${token}:{}`],
      `hf1:${owner}:${token}:{"s":1700000000000000,"h":"${'h'.repeat(2100)}","p":1}`,
      Buffer.from([0xff, 0, 0x80, 0xc3, 0x28]),
    ])
  }
}
