/**
 * Every option of the engine: default, range, and the check, in one place.
 *
 * Undefined means "not given"; an explicit 0 is a 0. Whatever is wrong is found before anything is
 * sent, and the message names the option, the value and the allowed range.
 */
import type { RevokeOptions } from './backend.ts'
import type { Capabilities } from './capabilities.ts'
import { WITHHELD } from './error-text.ts'
import { InvalidArgumentError } from './errors.ts'
import type { AcquireOptions, LocksOptions } from './lease.ts'
import type { Clock } from './seams.ts'
import { checkToken } from './token.ts'
import { lifeMs, renewEveryMs } from './validity.ts'

export const TTL_MS_MIN = 100
export const TTL_MS_MAX = 86_400_000
/** Long enough for the sections that most work needs, short enough to wait for after a crash. */
const TTL_MS_DEFAULT = 30_000
/** One default TTL, so that a crashed holder is gone by then. */
const WAIT_MS_DEFAULT = 30_000

const LOCK_NAME_BYTES_MAX = 512
export const LABEL_BYTES_MAX = 256
const VALUE_BYTES_MAX = 512
const LIST_LIMIT_DEFAULT = 1000
const LIST_LIMIT_MAX = 1_000_000
const REASON_BYTES_MAX = 256
/** A renewal that comes later than this after the one before leaves no time for a second try. */
const RENEW_DEADLINE_RATIO = 1.2
/** The least that is above that ratio with a pace of 1 ms. */
const RENEW_DEADLINE_MS_MIN = 2

/**
 * Helper keys have it between prefix and name. Refused anywhere in a name, not only at its beginning:
 * with an empty prefix the lock "lock:#hf:want:a" would be the helper key of another backend.
 */
const RESERVED = '#hf:'

/** Checked and complete. */
export type Settings = Readonly<{
  ttlMs: number
  renewDeadlineMs: number
  renewEveryMs: number
  renew: boolean
  minHoldMs: number
  maxHoldMs: number
  lockDelayMs: number
  label: string | undefined
  value: string | undefined
  waitMs: number
  signal: AbortSignal | undefined
}>

const OPTION_NAMES: ReadonlySet<string> = new Set([
  'ttlMs',
  'renewDeadlineMs',
  'renewEveryMs',
  'renew',
  'minHoldMs',
  'maxHoldMs',
  'lockDelayMs',
  'label',
  'value',
  'waitMs',
  'signal',
])

/** What `createLocks` takes as defaults: a signal belongs to one call. */
export const LOCKS_OPTION_NAMES: readonly string[] = [
  ...[...OPTION_NAMES].filter((name) => name !== 'signal'),
  'clock',
]

/** The part of what a backend claims that options are checked against. */
type TtlRange = Pick<Capabilities, 'ttlMsMin' | 'ttlMsMax'>

type Given = AcquireOptions & LocksOptions

/** What a call may not be given, with the reason in the message. */
export type Refused = Readonly<Partial<Record<'waitMs' | 'signal', string>>>

export class OptionReader {
  readonly #capabilities: TtlRange
  readonly #defaults: Given
  /** Lets tests use a TTL below the public minimum; never set by the public factory. */
  readonly #ttlMsFloor: number
  /** What a call without options gets. */
  readonly #standard: Settings

  constructor(capabilities: TtlRange, defaults: LocksOptions, ttlMsFloor: number = TTL_MS_MIN) {
    this.#capabilities = capabilities
    this.#ttlMsFloor = ttlMsFloor
    checkShape(defaults, 'defaults')
    checkClock(defaults.clock)
    const { clock: _, ...rest } = defaults
    this.#defaults = rest
    // A wrong default must fail where it stands, not at the first acquire.
    const refused = { signal: 'none: a signal belongs to one call' }
    this.#standard = this.#readAll(rest, refused, ['clock'])
  }

  /**
   * @param more Names of options that somebody else reads, for the message.
   * @throws InvalidArgumentError naming the first option that is wrong.
   */
  read(
    options: AcquireOptions | undefined,
    refused: Refused = {},
    more: readonly string[] = [],
  ): Settings {
    return options === undefined ? this.#standard : this.#readAll(options, refused, more)
  }

  #readAll(own: AcquireOptions, refused: Refused, more: readonly string[] = []): Settings {
    checkShape(own, 'options')
    for (const name of Object.keys(own)) {
      const why = refused[name as keyof Refused]
      const value = (own as Record<string, unknown>)[name]
      if (value === undefined) continue
      if (why !== undefined) throw new InvalidArgumentError(name, value, why)
      if (OPTION_NAMES.has(name)) continue
      throw unknownName(
        name,
        [...OPTION_NAMES, ...more].filter((one) => !(one in refused)),
      )
    }
    // Only undefined means "not given": null is a mistake, and 0 is a 0.
    const given = <K extends keyof Given>(name: K): Given[K] => {
      const value = (own as Given)[name]
      return value === undefined ? this.#defaults[name] : value
    }
    const or = <T>(value: T | undefined, fallback: T): T => (value === undefined ? fallback : value)
    const lockDelayMs = or(given('lockDelayMs'), 0)
    const ttlMs = this.#readTtl(or(given('ttlMs'), TTL_MS_DEFAULT), lockDelayMs)
    return {
      ttlMs,
      ...readTiming(
        ttlMs,
        given('renewDeadlineMs'),
        given('renewEveryMs'),
        own.renewEveryMs === undefined && own.renewDeadlineMs !== undefined,
      ),
      renew: bool('renew', or(given('renew'), true)),
      minHoldMs: this.#readMinHold(or(given('minHoldMs'), 0)),
      maxHoldMs: readMaxHold(or(given('maxHoldMs'), Number.POSITIVE_INFINITY), ttlMs),
      lockDelayMs,
      label: text('label', given('label'), LABEL_BYTES_MAX),
      value: text('value', given('value'), VALUE_BYTES_MAX),
      waitMs: duration('waitMs', or(given('waitMs'), WAIT_MS_DEFAULT), { infinite: true }),
      signal: readSignal(given('signal')),
    }
  }

  /** The TTL that a lease is renewed to, which the same bounds apply to. */
  readRenewTtl(ttlMs: number, lockDelayMs: number): number {
    return this.#readTtl(ttlMs, lockDelayMs)
  }

  #ttlMsMin(): number {
    return Math.max(this.#ttlMsFloor, this.#capabilities.ttlMsMin)
  }

  #ttlMsMax(): number {
    return Math.min(TTL_MS_MAX, this.#capabilities.ttlMsMax)
  }

  #readTtl(ttlMs: number, lockDelayMs: number): number {
    const min = this.#ttlMsMin()
    const max = this.#ttlMsMax()
    integer('ttlMs', ttlMs, min, max)
    duration('lockDelayMs', lockDelayMs, { max: max - ttlMs })
    return ttlMs
  }

  #readMinHold(minHoldMs: number): number {
    return duration('minHoldMs', minHoldMs, { max: this.#ttlMsMax() })
  }
}

function readTiming(
  ttlMs: number,
  renewDeadline: number | undefined,
  renewEvery: number | undefined,
  isDeadlineAlone: boolean,
): Pick<Settings, 'renewDeadlineMs' | 'renewEveryMs'> {
  const life = lifeMs(ttlMs)
  const given = renewDeadline === undefined ? life : renewDeadline
  const renewDeadlineMs = integer('renewDeadlineMs', given, RENEW_DEADLINE_MS_MIN, life)
  const every = renewEvery === undefined ? defaultEvery(ttlMs, renewDeadlineMs) : renewEvery
  integer('renewEveryMs', every, 1, ttlMs)
  if (renewDeadlineMs <= RENEW_DEADLINE_RATIO * every) {
    if (isDeadlineAlone) {
      // The pace is of `createLocks`: what this call has to correct is the deadline.
      const min = Math.floor(RENEW_DEADLINE_RATIO * every) + 1
      const allowed = `an integer from ${min} to ${life}, here with renewEveryMs ${every}`
      throw new InvalidArgumentError('renewDeadlineMs', renewDeadlineMs, allowed)
    }
    throw new InvalidArgumentError(
      'renewEveryMs',
      every,
      `ttlMs > renewDeadlineMs > ${RENEW_DEADLINE_RATIO} * renewEveryMs, ` +
        `here ${ttlMs} > ${renewDeadlineMs} > ${RENEW_DEADLINE_RATIO} * renewEveryMs`,
    )
  }
  return { renewDeadlineMs, renewEveryMs: every }
}

/** A shorter renewal deadline alone must not make the default interval invalid. */
function defaultEvery(ttlMs: number, renewDeadlineMs: number): number {
  return Math.min(renewEveryMs(ttlMs), Math.max(1, Math.floor(renewDeadlineMs / 2)))
}

function readMaxHold(maxHoldMs: number, ttlMs: number): number {
  if (maxHoldMs === Number.POSITIVE_INFINITY) return maxHoldMs
  if (!Number.isSafeInteger(maxHoldMs) || maxHoldMs < ttlMs) {
    throw new InvalidArgumentError(
      'maxHoldMs',
      maxHoldMs,
      `Infinity, or an integer from ${ttlMs}, the ttlMs`,
    )
  }
  return maxHoldMs
}

/**
 * "One of a, b" would read as if the value could be one of them. The value is not repeated: it may be
 * a password under a wrong name.
 */
function unknownName(name: string, known: readonly string[]): InvalidArgumentError {
  const allowed = `no option of that name; the options are ${known.join(', ')}`
  return new InvalidArgumentError(name, WITHHELD, allowed)
}

/**
 * @param path Stands before each name in the message.
 * @throws InvalidArgumentError naming the first one that is not known; undefined is "not given".
 */
export function checkNames(given: object, known: readonly string[], path = ''): void {
  for (const [name, value] of Object.entries(given)) {
    if (value !== undefined && !known.includes(name)) {
      throw unknownName(`${path}${name}`, known)
    }
  }
}

/** An integer number of milliseconds, fractions refused: which way to round is the caller's call. */
export function integer(
  option: string,
  value: unknown,
  min: number,
  max: number,
  remark = '',
): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max) {
    throw new InvalidArgumentError(option, value, `an integer from ${min} to ${max}${remark}`)
  }
  return value
}

function duration(
  option: string,
  value: unknown,
  { max = Number.MAX_SAFE_INTEGER, infinite = false }: { max?: number; infinite?: boolean },
): number {
  if (infinite && value === Number.POSITIVE_INFINITY) return value
  return integer(option, value, 0, max, infinite ? ' milliseconds, or Infinity' : ' milliseconds')
}

function bool(option: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw new InvalidArgumentError(option, value, 'true or false')
  return value
}

function text(option: string, value: unknown, bytesMax: number): string | undefined {
  if (value === undefined) return undefined
  if (typeof value !== 'string' || Buffer.byteLength(value) > bytesMax || !value.isWellFormed()) {
    throw new InvalidArgumentError(
      option,
      value,
      `well-formed text of up to ${bytesMax} bytes of UTF-8`,
    )
  }
  return value
}

/** What a leader says of itself. Undefined is no value. */
export function checkValue(value: unknown): string | undefined {
  return text('value', value, VALUE_BYTES_MAX)
}

export function readSignal(signal: unknown): AbortSignal | undefined {
  if (signal === undefined) return undefined
  const shape = signal as Partial<AbortSignal> | null
  if (typeof shape?.aborted !== 'boolean' || typeof shape.addEventListener !== 'function') {
    throw new InvalidArgumentError('signal', signal, 'an AbortSignal')
  }
  return signal as AbortSignal
}

export function checkShape(options: unknown, option: string): void {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError(option, options, 'an object with options')
  }
}

function checkClock(clock: Clock | undefined): void {
  if (clock === undefined) return
  if (typeof clock?.nowMs !== 'function' || typeof clock.after !== 'function') {
    throw new InvalidArgumentError('clock', clock, 'an object with nowMs() and after(delayMs, fn)')
  }
}

/**
 * One lock name: 1 to 512 bytes of UTF-8, without NUL and without `#hf:`.
 *
 * A list is refused rather than read as characters: that would lock each letter and protect
 * nothing.
 */
export function checkLockName(lockName: unknown, option = 'lockName'): string {
  if (
    typeof lockName !== 'string' ||
    lockName === '' ||
    // A character takes at most three bytes, so that most names need not be measured.
    (3 * lockName.length > LOCK_NAME_BYTES_MAX &&
      Buffer.byteLength(lockName) > LOCK_NAME_BYTES_MAX) ||
    lockName.includes('\0') ||
    lockName.includes(RESERVED) ||
    !lockName.isWellFormed()
  ) {
    throw new InvalidArgumentError(
      option,
      lockName,
      `text of 1 to ${LOCK_NAME_BYTES_MAX} bytes of UTF-8, without NUL and "${RESERVED}"`,
    )
  }
  return lockName
}

export function readListOptions(options: unknown): { prefix: string; limit: number } {
  const own = options ?? {}
  checkShape(own, 'options')
  checkNames(own, ['prefix', 'limit'])
  const { prefix = '', limit = LIST_LIMIT_DEFAULT } = own as Record<string, unknown>
  if (typeof prefix !== 'string' || Buffer.byteLength(prefix) > LOCK_NAME_BYTES_MAX) {
    throw new InvalidArgumentError('prefix', prefix, `text of up to ${LOCK_NAME_BYTES_MAX} bytes`)
  }
  return { prefix, limit: integer('limit', limit, 1, LIST_LIMIT_MAX) }
}

export function checkRevoke(seen: unknown): RevokeOptions {
  checkShape(seen, 'seen')
  // Before the reason, or one that is misspelt would be told as missing.
  checkNames(seen as object, ['fencingToken', 'foreignOwner', 'reason'])
  const { fencingToken, foreignOwner, reason } = seen as Record<string, unknown>
  if (text('reason', reason, REASON_BYTES_MAX) === undefined || reason === '') {
    throw new InvalidArgumentError('reason', reason, `text of 1 to ${REASON_BYTES_MAX} bytes`)
  }
  if (foreignOwner === undefined) {
    checkToken(fencingToken)
  } else if (typeof foreignOwner !== 'string' || fencingToken !== undefined) {
    throw new InvalidArgumentError(
      'foreignOwner',
      foreignOwner,
      'text, and no fencingToken beside it',
    )
  }
  return seen as RevokeOptions
}
