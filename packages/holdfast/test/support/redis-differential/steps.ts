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
import { sha1 } from '../../../src/sim/node/bytes.ts'
import type { KeySpace } from '../../../src/sim/node/keyspace.ts'
import { Random } from '../../../src/sim/random.ts'
import { ownerMark } from '../../../src/wire/value.ts'
import { Standing } from './standing.ts'

export type Step =
  | Readonly<{ kind: 'script'; script: RedisScript; keys: string[]; args: string[] }>
  /** Of another program; value null: a list. */
  | Readonly<{ kind: 'put'; key: string; value: string | Buffer | null; lifeMs: number | null }>
  | Readonly<{ kind: 'remove'; key: string }>
  | Readonly<{ kind: 'persist'; key: string }>

/** Where the steps of one database come from. */
export interface Steps {
  /** @param scriptsOnly A server that takes no writes refuses those of others elsewhere. */
  next(scriptsOnly: boolean): Step
}

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

export function stepsOfRedis(seed: number, keys: KeySpace): Steps {
  return new RedisSteps(seed, keys)
}

class RedisSteps implements Steps {
  readonly #random: Random
  readonly #standing: Standing
  /** Sent again now and then, as a client does that had no answer. */
  #last: Step | null = null

  constructor(seed: number, keys: KeySpace) {
    this.#random = new Random(seed)
    this.#standing = new Standing(keys, this.#random)
  }

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
    const owner = this.#standing.ownerAt(lock)
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
      () => script(RENEW, [lock], [mark, this.#ttl(), this.#standing.tokenAt(lock)]),
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
    const tombstone = `${HELPERS}cancel:${this.#random.chance(0.3) ? this.#standing.ownerAt(lock) : this.#standing.owner()}`
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
    const [, inc = '', longest = ''] = this.#standing.valueAt(MARKER).split(':')
    return this.#random.chance(0.7)
      ? [inc, longest]
      : [this.#random.pick(INCS), this.#random.pick(TTLS)]
  }

  #handOver(lock: string, want: string, counter: string, owner: string): Step {
    const next = this.#standing.owner()
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
    const owner = this.#standing.owner()
    const seen = this.#random.chance(0.3)
      ? sha1(this.#standing.bytesAt(lock))
      : this.#standing.tokenAt(lock)
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
      `${HELPERS}cancel:${this.#standing.owner()}`,
      `${HELPERS}want:${name}`,
      MARKER,
    ])
    const counter = this.#random.pick(COUNTERS)
    const draws: (() => Step)[] = [
      () => ({ kind: 'put', key: lock, value: this.#standing.garbage(), lifeMs }),
      () => ({ kind: 'put', key: lock, value: this.#standing.valueAt(lock), lifeMs: null }),
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

  #markerOfAnother(): string {
    const state = this.#random.pick(['waiting', 'voting', 'closed'])
    return `${state}:${this.#random.pick(INCS)}:${this.#random.pick(TTLS)}:${'a1'.repeat(20)}`
  }

  /** Of the holder before a revoke, if there was one, who does not know of it. */
  #renewalOfOldHolder(lock: string): string[] {
    const token =
      /"r":"(\d+)"/.exec(this.#standing.valueAt(lock))?.[1] ?? this.#standing.tokenAt(lock)
    return [ownerMark(this.#standing.owner()), this.#ttl(), token]
  }

  #ttl(): string {
    return this.#random.pick(TTLS)
  }
}
