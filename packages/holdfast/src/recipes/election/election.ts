/**
 * Elections: one of many candidates leads, until it resigns or is lost; built on a lock of that name.
 *
 *     for await (const term of election.campaign({ value, signal })) { … }   // campaign.ts, term.ts
 *     for await (const leadership of election.observe()) { … }              // observation.ts, sight.ts
 *
 * A term is a lease, and its number the fencing token: there is no second mechanism that could disagree
 * with the first. Callbacks (`onStarted`, `onStopped`) were left out on purpose: two of them can be out of
 * step, and a loop's body cannot.
 */
import { InvalidArgumentError } from '../../core/errors.ts'
import type { Locks } from '../../core/lease.ts'
import {
  checkLockName,
  checkNames,
  checkShape,
  checkValue,
  integer,
  readSignal,
  type Settings,
} from '../../core/options.ts'
import { type Inside, insideOf } from '../../lock/inside.ts'
import { Campaign } from './campaign.ts'
import type { Election, ElectionOptions, Leadership, Term } from './contract.ts'
import { Doubts } from './doubts.ts'
import { Observation } from './observation.ts'
import { Rounds } from './rounds.ts'
import { Sight } from './sight.ts'

/** Long enough to end a request or a batch; the platform's own patience at a shutdown is some 10 s. */
const DRAIN_MS_DEFAULT = 5000

const REFUSED = {
  signal: 'none: a signal belongs to one campaign',
  waitMs: 'none: a candidate waits until it leads',
} as const

/**
 * An election on these locks. Makes nothing in the store; every process that names the same election on
 * the same store takes part in it.
 *
 * @param electionName The name of the lock that stands for the leadership, so keep the names of locks
 *   and of elections apart, by a prefix of your own.
 * @param options Of every campaign; those that are not given are the defaults of `locks`.
 * @throws InvalidArgumentError naming the option, its value and the allowed range.
 */
export function createElection(
  locks: Locks,
  electionName: string,
  options: ElectionOptions = {},
): Election {
  const { acquire, inspect, backend } = (locks ?? {}) as Partial<Locks>
  if (typeof acquire !== 'function' || typeof inspect !== 'function' || !backend) {
    throw new InvalidArgumentError(
      'locks',
      locks,
      'locks, as createLocks() or connect() makes them',
    )
  }
  checkLockName(electionName, 'electionName')
  checkShape(options, 'options')
  const inside = insideOf(locks)
  const { drainMs, ...lease } = options
  const settings = inside.options.read(lease, REFUSED, ['drainMs'])
  const { ttlMs } = settings
  const drain =
    drainMs === undefined
      ? Math.min(DRAIN_MS_DEFAULT, ttlMs)
      : integer('drainMs', drainMs, 0, ttlMs, ', the ttlMs')
  return new LockElection(locks, electionName, inside, settings, drain)
}

class LockElection implements Election {
  readonly #locks: Locks
  readonly #name: string
  readonly #seams: Inside['seams']
  readonly #emitter: Inside['emitter']
  readonly #settings: Settings
  readonly #drainMs: number

  constructor(
    locks: Locks,
    electionName: string,
    { seams, emitter }: Inside,
    settings: Settings,
    drainMs: number,
  ) {
    this.#locks = locks
    this.#name = electionName
    this.#seams = seams
    this.#emitter = emitter
    this.#settings = settings
    this.#drainMs = drainMs
  }

  campaign(
    options: { value?: string | undefined; signal?: AbortSignal | undefined } = {},
  ): AsyncIterable<Term> {
    checkShape(options, 'options')
    checkNames(options, ['value', 'signal'])
    const value = checkValue(options.value) ?? this.#settings.value
    const signal = readSignal(options.signal)
    const candidacy = {
      locks: this.#locks,
      seams: this.#seams,
      drainMs: this.#drainMs,
      signal,
    }
    const settings = { ...this.#settings, value }
    const begin = (): Campaign => {
      const doubts = new Doubts(this.#locks, this.#name, settings, this.#emitter)
      return new Campaign(this.#name, settings, candidacy, this.#sight(), doubts)
    }
    return { [Symbol.asyncIterator]: () => new Rounds(begin()) }
  }

  leader(): Promise<Leadership | null> {
    return this.#sight().look()
  }

  observe(options: { signal?: AbortSignal | undefined } = {}): AsyncIterable<Leadership | null> {
    checkShape(options, 'options')
    checkNames(options, ['signal'])
    const signal = readSignal(options.signal)
    return {
      [Symbol.asyncIterator]: () => new Rounds(new Observation(this.#sight(), signal)),
    }
  }

  #sight(): Sight {
    return new Sight(this.#locks, this.#seams, this.#name, this.#settings.ttlMs)
  }
}
