/**
 * Random requests to a Redis: our scripts, and what other programs do to the same keys.
 *
 * Three names, two of them on one counter, four owners and few TTLs, so that requests meet: half of
 * them are of the owner, the token or the marker that stands there at the time.
 */
import { ACQUIRE } from '../../../src/backends/redis/scripts/acquire.ts'
import { CANCEL } from '../../../src/backends/redis/scripts/cancel.ts'
import { ADMIT, GATED_ACQUIRE } from '../../../src/backends/redis/scripts/gate.ts'
import { HAND_OVER } from '../../../src/backends/redis/scripts/hand-over.ts'
import { AWAIT, FACTS, INSPECT, LIST } from '../../../src/backends/redis/scripts/look.ts'
import { OWNS } from '../../../src/backends/redis/scripts/owns.ts'
import { PROCLAIM } from '../../../src/backends/redis/scripts/proclaim.ts'
import { RAISE } from '../../../src/backends/redis/scripts/raise.ts'
import { RELEASE, REST } from '../../../src/backends/redis/scripts/release.ts'
import { RENEW } from '../../../src/backends/redis/scripts/renew.ts'
import { REVOKE } from '../../../src/backends/redis/scripts/revoke.ts'
import type { RedisScript } from '../../../src/clients/redis.ts'
import { sha1, toText } from '../../../src/sim/node/bytes.ts'
import type { KeySpace } from '../../../src/sim/node/keyspace.ts'
import { Random } from '../../../src/sim/random.ts'
import { ownerMark } from '../../../src/wire/value.ts'

export type Step =
  | Readonly<{ kind: 'script'; script: RedisScript; keys: string[]; args: string[] }>
  /** Of another program; value null: a list. */
  | Readonly<{ kind: 'put'; key: string; value: string | Buffer | null; lifeMs: number | null }>
  | Readonly<{ kind: 'remove'; key: string }>
  | Readonly<{ kind: 'persist'; key: string }>

const PREFIX = 'lock:'
const HELPERS = `${PREFIX}#hf:`
export const MARKER = `${HELPERS}marker`
/** What a pattern would take for more than it is, and what has more bytes than characters. */
const NAMES = ['a', 'b[*]?\\', 'jé:1'] as const
const COUNTERS = [`${HELPERS}token:{06}`, `${HELPERS}token:{23}`, `${HELPERS}token:{06}`] as const
const TTLS = ['60000', '90000', '3600000'] as const
/** Over before the next request. */
const SHORT_TTL = '1'
const WAITERS = ['one', 'other'] as const
const INCS = ['inc-1', 'inc_2', 'inc3'] as const
const METADATA = [
  ',"h":"host","p":1}',
  ',"d":500,"h":"host","p":1,"l":"é","v":"x"}',
  ',"h":"ho\\",\\"v\\":st","p":22,"V":"eA=="}',
] as const
const TOKENS = [
  ...['1', '9007199254740990', '9007199254740991', '9007199254740992', '9223372036854775805'],
  ...['9223372036854775806', '9223372036854775807'],
] as const
/** What may stand at a counter, besides: no number, no number of Redis, none of 64 bits. */
const COUNTER_GARBAGE = [
  '',
  '-5',
  '007',
  'x',
  '0000000000000000000',
  '9223372036854775808',
] as const
const MEMBERS = [',"v":"yé"', ',"V":"eQ=="', `,"v":"${'z'.repeat(1990)}"`] as const

export class Drawing {
  readonly owners: readonly string[]
  readonly #keys: KeySpace
  readonly #random: Random
  /** Sent again now and then, as a client does that had no answer. */
  #last: Step | null = null

  constructor(seed: number, keys: KeySpace) {
    this.#random = new Random(seed)
    this.#keys = keys
    this.owners = Array.from({ length: 4 }, () => this.#random.nonce())
  }

  /** @param scriptsOnly A server that takes no writes refuses those of others elsewhere. */
  next(scriptsOnly: boolean): Step {
    const isOther = !scriptsOnly && this.#random.chance(0.25)
    if (isOther) return this.#other()
    if (this.#last === null || !this.#random.chance(0.05)) this.#last = this.#script()
    return this.#last
  }

  #script(): Step {
    const name = this.#random.pick(NAMES)
    const lock = PREFIX + name
    const [counter, want] = [COUNTERS[NAMES.indexOf(name)] ?? '', `${HELPERS}want:${name}`]
    const owner = this.#ownerAt(lock)
    const mark = ownerMark(owner)
    const tombstone = `${HELPERS}cancel:${owner}`
    const script = (script: RedisScript, keys: string[], args: string[]): Step => {
      return { kind: 'script', script, keys, args }
    }
    const draws: (() => Step)[] = [
      () => script(ACQUIRE, ...this.#acquire(lock, counter, want)),
      () => script(ACQUIRE, ...this.#acquire(lock, counter, want)),
      () => this.#gated(...this.#acquire(lock, counter, want)),
      () => script(ADMIT, [MARKER], this.#admit()),
      () => script(RENEW, [lock], [mark, this.#ttl(), this.#tokenAt(lock)]),
      () => script(RENEW, [lock], this.#renewalOfOldHolder(lock)),
      () => script(RELEASE, [lock, want], [mark]),
      () => script(REST, [lock, tombstone], [mark, this.#ttl()]),
      () => script(CANCEL, [lock, want, tombstone], [mark, this.#random.pick(['30000', '60000'])]),
      () => this.#handOver(lock, want, counter, owner),
      () => this.#revoke(lock, counter),
      () => script(PROCLAIM, [lock], [mark, this.#random.pick(MEMBERS), '2048']),
      () => script(OWNS, [lock], [mark]),
      () => script(RAISE, [counter], [this.#random.pick(TOKENS)]),
      () => script(INSPECT, [lock], []),
      () => this.#list(),
      () => script(AWAIT, [lock, want], [this.#random.pick(WAITERS)]),
      () => (this.#random.chance(0.3) ? script(FACTS, [lock], []) : this.#revoke(lock, counter)),
    ]
    return this.#random.pick(draws)()
  }

  #acquire(lock: string, counter: string, want: string): [keys: string[], args: string[]] {
    const tombstone = `${HELPERS}cancel:${this.#random.chance(0.3) ? this.#ownerAt(lock) : this.#owner()}`
    const ttl = this.#random.chance(0.03) ? SHORT_TTL : this.#ttl()
    const args = [ttl, this.#random.pick(METADATA)]
    if (this.#random.chance(0.5)) return [[lock, tombstone, counter], args]
    return [
      [lock, tombstone, counter, want],
      [...args, this.#random.pick(WAITERS)],
    ]
  }

  #gated(keys: string[], args: string[]): Step {
    const gate = [this.#random.pick(INCS), this.#random.pick(TTLS)]
    return {
      kind: 'script',
      script: GATED_ACQUIRE,
      keys: [...keys, MARKER],
      args: [...args, ...gate],
    }
  }

  #admit(): string[] {
    const [, inc = '', longest = ''] = this.#valueAt(MARKER).split(':')
    return this.#random.chance(0.7)
      ? [inc, longest]
      : [this.#random.pick(INCS), this.#random.pick(TTLS)]
  }

  #handOver(lock: string, want: string, counter: string, owner: string): Step {
    const next = this.#owner()
    const cancelled = `${HELPERS}cancel:`
    const keys = [lock, want, counter, cancelled + next, cancelled + owner]
    const args = [
      ownerMark(owner),
      next,
      this.#ttl(),
      this.#random.pick(METADATA),
      this.#random.pick(WAITERS),
    ]
    return {
      kind: 'script',
      script: HAND_OVER,
      keys,
      args: [...args, this.#random.pick(['0', '1'])],
    }
  }

  #revoke(lock: string, counter: string): Step {
    const owner = this.#owner()
    const seen = this.#random.chance(0.3) ? sha1(this.#bytesAt(lock)) : this.#tokenAt(lock)
    const keys = [lock, `${HELPERS}cancel:${owner}`, counter, `${HELPERS}cancel:`]
    const args = [owner, seen, this.#ttl(), this.#random.pick(METADATA), '30000']
    return { kind: 'script', script: REVOKE, keys, args }
  }

  #list(): Step {
    const prefix = this.#random.pick(['', 'b[*', 'jé'])
    const bytes = String(Buffer.byteLength(prefix))
    const isKey = this.#random.chance(0.5)
    const start = PREFIX + prefix
    const args = ['0', '250', bytes]
    return isKey
      ? { kind: 'script', script: LIST, keys: [start], args }
      : { kind: 'script', script: LIST, keys: [], args: [...args, start] }
  }

  #other(): Step {
    const name = this.#random.pick(NAMES)
    const lock = PREFIX + name
    const lifeMs = this.#random.chance(0.1) ? 1 : Number(this.#ttl())
    const helper = this.#random.pick([
      `${HELPERS}cancel:${this.#owner()}`,
      `${HELPERS}want:${name}`,
      MARKER,
    ])
    const counter = this.#random.pick(COUNTERS)
    const draws: (() => Step)[] = [
      () => ({ kind: 'put', key: lock, value: this.#lockGarbage(), lifeMs }),
      () => ({ kind: 'put', key: lock, value: this.#valueAt(lock), lifeMs: null }),
      () => ({
        kind: 'put',
        key: this.#random.pick([lock, helper, counter]),
        value: null,
        lifeMs: null,
      }),
      () => ({ kind: 'put', key: helper, value: 'garbage', lifeMs }),
      () => ({
        kind: 'put',
        key: counter,
        value: this.#random.pick(TOKENS),
        lifeMs: this.#random.pick([null, lifeMs]),
      }),
      () => ({
        kind: 'put',
        key: counter,
        value: this.#random.pick(COUNTER_GARBAGE),
        lifeMs: null,
      }),
      () => ({ kind: 'put', key: MARKER, value: this.#markerOfAnother(), lifeMs: null }),
      () => ({ kind: 'persist', key: lock }),
      ...Array.from({ length: 3 }, () => () => ({ kind: 'remove', key: lock }) as const),
      ...Array.from({ length: 4 }, () => () => ({ kind: 'remove', key: helper }) as const),
      ...Array.from({ length: 3 }, () => () => ({ kind: 'remove', key: counter }) as const),
    ]
    return this.#random.pick(draws)()
  }

  /** With a TTL or without, what no script of ours wrote there. */
  #lockGarbage(): string | Buffer {
    const [owner, token] = [this.#owner(), '0001700000000000000']
    return this.#random.pick<string | Buffer>([
      ...['', 'garbage', 'é'.repeat(40), `x${'é'.repeat(40)}`, `hf1:${'-'.repeat(22)}:${token}:{}`],
      ...['hf1:', `hf1:${owner}:`, `hf1:${owner}:12:{`, `hf1:${owner}:${token}:{}`],
      `hf1:${owner}:${token}:{"s":1700000000000000,"h":"${'h'.repeat(2100)}","p":1}`,
      Buffer.from([0xff, 0, 0x80, 0xc3, 0x28]),
    ])
  }

  #markerOfAnother(): string {
    const state = this.#random.pick(['waiting', 'voting', 'closed'])
    return `${state}:${this.#random.pick(INCS)}:${this.#random.pick(TTLS)}:${'a1'.repeat(20)}`
  }

  #ownerAt(lock: string): string {
    const owner = this.#valueAt(lock).split(':')[1] ?? ''
    return owner.length === 22 && this.#random.chance(0.8) ? owner : this.#owner()
  }

  #tokenAt(lock: string): string {
    const token = this.#valueAt(lock).split(':')[2] ?? ''
    return token.length === 19 && this.#random.chance(0.8) ? token : '1'.padStart(19, '0')
  }

  /** Of the holder before a revoke, if there was one, who does not know of it. */
  #renewalOfOldHolder(lock: string): string[] {
    const token = /"r":"(\d+)"/.exec(this.#valueAt(lock))?.[1] ?? this.#tokenAt(lock)
    return [ownerMark(this.#owner()), this.#ttl(), token]
  }

  #bytesAt(key: string): string {
    return this.#keys.find(Buffer.from(key).toString('latin1'), 0)?.value ?? ''
  }

  #valueAt(key: string): string {
    return toText(this.#bytesAt(key))
  }

  #owner(): string {
    return this.#random.pick(this.owners)
  }

  #ttl(): string {
    return this.#random.pick(TTLS)
  }
}
