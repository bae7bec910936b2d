/**
 * Random requests to a node of a Redlock: its scripts, and what befalls its keys.
 *
 * Three names, two of them on one counter. The node loses its marker, a counter or all that it has, is
 * found with the marker of another server, of another set or of no Redlock at all, waits, is admitted,
 * closed and opened again; a good part of the requests heals it, so that it votes most of the time.
 */
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import {
  ADMIT,
  ADOPT_RUN,
  CLOSE,
  COUNTERS,
  QUARANTINE,
  STATE,
} from '../../../src/backends/redlock/scripts/admission.ts'
import { CANCEL } from '../../../src/backends/redlock/scripts/cancel.ts'
import { EXTEND } from '../../../src/backends/redlock/scripts/extend.ts'
import { AWAIT, FACTS, INSPECT, LIST } from '../../../src/backends/redlock/scripts/look.ts'
import { PROBE } from '../../../src/backends/redlock/scripts/probe.ts'
import { PROCLAIM } from '../../../src/backends/redlock/scripts/proclaim.ts'
import { RAISE, RAISE_RECORDED } from '../../../src/backends/redlock/scripts/raise.ts'
import { RELEASE, REST } from '../../../src/backends/redlock/scripts/release.ts'
import { REPAIR } from '../../../src/backends/redlock/scripts/repair.ts'
import { REVOKE } from '../../../src/backends/redlock/scripts/revoke.ts'
import type { RedisScript } from '../../../src/clients/redis.ts'
import { sha1 } from '../../../src/sim/node/bytes.ts'
import type { KeySpace } from '../../../src/sim/node/keyspace.ts'
import { Random } from '../../../src/sim/random.ts'
import { ownerMark } from '../../../src/wire/value.ts'
import { Standing } from './standing.ts'
import type { Step, Steps } from './steps.ts'

const PREFIX = 'lock:'
const HELPERS = `${PREFIX}#hf:`
const MARKER = `${HELPERS}marker`
const NAMES = ['a', 'b[*]?\\', 'jé:1'] as const
/** A node has 64; here the third is nobody's. */
const STRIPES = ['06', '23', '42'].map((stripe) => `${HELPERS}token:{${stripe}}`)
const STRIPE_OF_NAME = [0, 1, 0] as const
const TTLS = ['60000', '90000', '3600000'] as const
/** Over before the next request. */
const SHORT_TTL = '1'
const WAITERS = ['one', 'other'] as const
const INCS = ['1', '2', '_'].map((letter) => letter.repeat(22))
const SET = 'set-of-this-client-222'
const OTHER_SET = 'set-of-another-client2'
const NODES = 'a,bé,c'
const OTHER_RUN = 'a1'.repeat(20)
const METADATA = [
  ',"h":"host","p":1}',
  ',"d":500,"h":"host","p":1,"l":"é","v":"x"}',
  ',"h":"ho\\",\\"n\\":9,\\"v\\":st","p":22,"n":3,"V":"eA=="}',
] as const
const MEMBERS = [',"v":"yé"', ',"V":"eQ=="', `,"v":"${'z'.repeat(1990)}"`] as const
/** Where a sum of doubles, a comparison of texts or 64 bits go wrong. */
const TOKENS = [
  ...['1', '9', '10', '9007199254739999', '9007199254740000', '9007199254740991'],
  ...['9007199254740992', '9007199254740993', '9223372036854775806', '9223372036854775807'],
] as const
const COUNTER_GARBAGE = ['', '-5', '007', 'x', '9223372036854775808'] as const
/** Seconds that a client's clock is off the node's: within a minute, and not. */
const CLOCKS_OFF_S = [0, 0, 0, -59, 59, -61, 61, -3600, 86_400] as const

export function stepsOfRedlock(seed: number, keys: KeySpace, runId: string): Steps {
  return new RedlockSteps(seed, keys, runId)
}

class RedlockSteps implements Steps {
  readonly #random: Random
  readonly #standing: Standing
  readonly #runId: string
  /** Sent again now and then, as the network may do. */
  #last: Step | null = null

  constructor(seed: number, keys: KeySpace, runId: string) {
    this.#random = new Random(seed)
    this.#standing = new Standing(keys, this.#random)
    this.#runId = runId
  }

  next(scriptsOnly: boolean): Step {
    if (!scriptsOnly && this.#random.chance(0.2)) return this.#accident()
    const isRepeat = this.#last !== null && this.#random.chance(0.05)
    if (isRepeat && this.#last !== null) return this.#last
    this.#last = this.#random.chance(0.2) ? this.#admission() : this.#request()
    return this.#last
  }

  #request(): Step {
    const index = this.#random.pick([0, 1, 2])
    const name = NAMES[index] ?? ''
    const lock = PREFIX + name
    const counter = STRIPES[STRIPE_OF_NAME[index] ?? 0] ?? ''
    const want = `${HELPERS}want:${name}`
    const owner = this.#standing.ownerAt(lock)
    const mark = ownerMark(owner)
    const tombstone = tombstoneOf(owner)
    const token = this.#standing.tokenAt(lock)
    const draws: (() => Step)[] = [
      () => this.#acquire(lock, counter, want),
      () => this.#acquire(lock, counter, want),
      () => this.#acquire(lock, counter, want),
      () =>
        step(RAISE_RECORDED, [lock, counter, MARKER], [mark, this.#wide(token), ...this.#gate()]),
      () => step(EXTEND, [lock, MARKER], [mark, this.#ttl(), ...this.#gate(), token]),
      () => step(EXTEND, [lock, MARKER], this.#extendOfOldHolder(lock)),
      () => this.#repair(lock, counter),
      () => this.#repair(lock, counter),
      () => step(RELEASE, [lock, want], [mark]),
      () => step(REST, [lock, tombstone], [mark, this.#ttl()]),
      () => this.#cancel(lock, want, counter, owner),
      () => step(PROCLAIM, [lock], [mark, ...this.#proclaimed(lock)]),
      () => this.#revoke(lock, counter),
      () => this.#revoke(lock, counter),
      () => step(RAISE, [counter, MARKER], [this.#token(), ...this.#gate()]),
      () => step(INSPECT, [lock], []),
      () => this.#list(),
      () => step(AWAIT, [lock, want], [this.#random.pick(WAITERS)]),
      () => step(this.#random.pick([FACTS, AWAIT]), [lock, want], [this.#random.pick(WAITERS)]),
    ]
    return this.#random.pick(draws)()
  }

  #acquire(lock: string, counter: string, want: string): Step {
    const owner = this.#random.chance(0.3) ? this.#standing.ownerAt(lock) : this.#standing.owner()
    const ttl = this.#random.chance(0.08) ? SHORT_TTL : this.#ttl()
    const keys = [lock, tombstoneOf(owner), counter, MARKER]
    const args = [ttl, ...this.#gate(), this.#floor(), this.#random.pick(METADATA)]
    if (this.#random.chance(0.5)) return step(ACQUIRE, keys, args)
    return step(ACQUIRE, [...keys, want], [...args, this.#random.pick(WAITERS)])
  }

  #repair(lock: string, counter: string): Step {
    const owner = this.#random.chance(0.3) ? this.#standing.ownerAt(lock) : this.#standing.owner()
    const token = this.#wide(this.#standing.valueAt(counter).padStart(19, '0').slice(-19))
    const args = [this.#ttl(), ...this.#gate(), token, this.#random.pick(METADATA)]
    return step(REPAIR, [lock, tombstoneOf(owner), counter, MARKER], args)
  }

  #cancel(lock: string, want: string, counter: string, owner: string): Step {
    const seen = this.#random.pick(['0', this.#token(), String(BigInt(nowUs()))])
    const life = this.#random.pick(['30000', '60000'])
    return step(CANCEL, [lock, want, tombstoneOf(owner), counter], [ownerMark(owner), life, seen])
  }

  #revoke(lock: string, counter: string): Step {
    const owner = this.#standing.owner()
    const isForeign = this.#random.chance(0.3)
    const seen = isForeign ? sha1(this.#standing.bytesAt(lock)) : this.#standing.ownerAt(lock)
    const keys = [lock, tombstoneOf(owner), counter, MARKER, `${HELPERS}cancel:`]
    const grant = [this.#ttl(), ...this.#gate(), this.#floor(), this.#random.pick(METADATA)]
    return step(REVOKE, keys, [owner, seen, this.#standing.tokenAt(lock), ...grant, '30000'])
  }

  /** Of the holder before a revoke, if there was one, who does not know of it. */
  #extendOfOldHolder(lock: string): string[] {
    const seen = /"r":"(\d+)"/.exec(this.#standing.valueAt(lock))?.[1]
    const token = seen ?? this.#standing.tokenAt(lock)
    return [ownerMark(this.#standing.owner()), this.#ttl(), ...this.#gate(), token]
  }

  #proclaimed(lock: string): string[] {
    const last = /"n":(\d+)/.exec(this.#standing.valueAt(lock))?.[1] ?? '8'
    const p = this.#random.pick([last, String(Number(last) + 1), String(Number(last) - 1), '10'])
    return [p.replace('-', ''), this.#random.pick(MEMBERS)]
  }

  #list(): Step {
    const prefix = this.#random.pick(['', 'b[*', 'jé'])
    return step(LIST, [PREFIX + prefix], ['0', '250', String(Buffer.byteLength(prefix))])
  }

  #admission(): Step {
    const standing = this.#standing.valueAt(MARKER)
    const seen = this.#random.chance(0.8) ? standing : this.#random.pick(['', this.#marker('v')])
    const keys = [MARKER, ...STRIPES]
    const draws: (() => Step)[] = [
      () => step(QUARANTINE, this.#random.pick([keys, keys, [MARKER]]), this.#quarantine(seen)),
      () => step(QUARANTINE, keys, this.#quarantine(seen)),
      ...Array.from({ length: 4 }, () => () => step(ADMIT, keys, this.#admit(standing))),
      () => step(ADOPT_RUN, [MARKER], [seen]),
      () => step(CLOSE, [MARKER], [seen, this.#random.pick([SET, OTHER_SET])]),
      () => step(STATE, [MARKER], []),
      () => step(PROBE, [], []),
      () => step(COUNTERS, STRIPES, []),
    ]
    return this.#random.pick(draws)()
  }

  #quarantine(seen: string): string[] {
    const set = this.#random.chance(0.9) ? SET : OTHER_SET
    const isOfClosed = seen.startsWith('hfm1:c:') && this.#random.chance(0.5)
    const [inc, longest] = [this.#random.pick(INCS), this.#random.pick(TTLS)]
    return [inc, set, '3', longest, NODES, isOfClosed ? '' : seen]
  }

  #admit(standing: string): string[] {
    const inc = this.#random.chance(0.8) ? standing.slice(7, 29) : this.#random.pick(INCS)
    return [
      inc,
      this.#random.pick(['', '', this.#runId, OTHER_RUN]),
      ...STRIPES.map(() => this.#floor()),
    ]
  }

  /** What befalls a node: a good part of it puts things right again. */
  #accident(): Step {
    const name = this.#random.pick(NAMES)
    const [lock, counter] = [PREFIX + name, this.#random.pick(STRIPES)]
    const helper = this.#random.pick([
      tombstoneOf(this.#standing.owner()),
      `${HELPERS}want:${name}`,
    ])
    const put = (
      key: string,
      value: string | Buffer | null,
      lifeMs: number | null = null,
    ): Step => {
      return { kind: 'put', key, value, lifeMs }
    }
    const lifeMs = this.#random.chance(0.2) ? 1 : Number(this.#ttl())
    const draws: (() => Step)[] = [
      ...Array.from({ length: 14 }, () => () => put(MARKER, this.#marker('v'))),
      ...Array.from({ length: 6 }, () => () => put(counter, String(BigInt(nowUs())))),
      () => put(MARKER, this.#markerOfAnother()),
      () => ({ kind: 'remove', key: MARKER }),
      () => ({ kind: 'remove', key: counter }),
      () => put(counter, this.#random.pick(TOKENS), this.#random.pick([null, lifeMs])),
      () => put(counter, this.#random.pick(COUNTER_GARBAGE)),
      () => put(this.#random.pick([lock, helper, counter, MARKER]), null),
      () => put(lock, this.#standing.garbage(), lifeMs),
      () => put(helper, 'garbage', lifeMs),
      () => ({ kind: 'persist', key: lock }),
      ...Array.from({ length: 3 }, () => () => ({ kind: 'remove', key: lock }) as const),
      ...Array.from({ length: 8 }, () => () => ({ kind: 'remove', key: helper }) as const),
    ]
    return this.#random.pick(draws)()
  }

  #marker(state: string, set = SET, runId = this.#runId, rest = NODES): string {
    const longest = this.#random.pick(['60000', ...Array.from({ length: 5 }, () => '3600000')])
    const widths = `03:${longest.padStart(8, '0')}`
    return ['hfm1', state, this.#random.pick(INCS), set, widths, runId, rest].join(':')
  }

  #markerOfAnother(): string {
    return this.#random.pick([
      ...[this.#marker('v', SET, OTHER_RUN), this.#marker('w', SET, OTHER_RUN)],
      ...[this.#marker('v', OTHER_SET), this.#marker('w', OTHER_SET, OTHER_RUN)],
      ...[
        this.#marker('c', SET, this.#runId, OTHER_SET),
        this.#marker('c', OTHER_SET, OTHER_RUN, SET),
      ],
      ...[
        this.#marker('x'),
        this.#marker('v').slice(0, 60),
        this.#marker('v').replace(':03:', ':xxx:'),
      ],
      ...['', 'hfm1:v:', `voting:${INCS[0]}:60000:${OTHER_RUN}`],
    ])
  }

  /** The set and the run_id that the client goes by. */
  #gate(): [set: string, runId: string] {
    const set = this.#random.chance(0.97) ? SET : OTHER_SET
    const runId = this.#random.chance(0.05) ? OTHER_RUN : this.#random.pick(['', this.#runId])
    return [set, runId]
  }

  #floor(): string {
    const offUs = this.#random.pick(CLOCKS_OFF_S) * 1_000_000
    return this.#random.chance(0.1) ? this.#token() : String(BigInt(nowUs() + offUs))
  }

  /** As 19 digits, a bit more, a bit less, or something else. */
  #wide(token: string): string {
    const number = /^\d{19}$/.test(token) ? BigInt(token) : 1n
    const other = this.#random.pick([number, number + 1n, number - 1n, BigInt(this.#token())])
    const clamped = other < 0n ? 0n : other
    return String(clamped).padStart(19, '0').slice(-19)
  }

  #token(): string {
    return this.#random.pick(TOKENS)
  }

  #ttl(): string {
    return this.#random.pick(TTLS)
  }
}

function step(script: RedisScript, keys: string[], args: string[]): Step {
  return { kind: 'script', script, keys, args }
}

function tombstoneOf(owner: string): string {
  return `${HELPERS}cancel:${owner}`
}

function nowUs(): number {
  return Date.now() * 1000
}
