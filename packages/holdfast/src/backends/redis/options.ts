import type { RedisSubscriber } from '../../clients/redis-subscriber.ts'
import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'

const KEY_PREFIX_DEFAULT = 'lock:'
const BYTES_MAX = 64

export type RedisOptions = Options<{
  /**
   * Stands before every key: `lock:` by default; 0 to 64 bytes of UTF-8. Empty where the keys of
   * other programs must be met. It is part of a lease's `source`.
   */
  keyPrefix: string
  /**
   * The connection by which contenders learn of a release: a client of yours that is used for
   * nothing else, or false, and they poll. By default `client.duplicate()`, opened when somebody
   * first waits, and ended by `close()` or with your client.
   */
  subscriber: RedisSubscriber | false
  /**
   * Distinguishes the tokens of this store from those of another with the same prefix, for those
   * who move their locks: up to 64 bytes, empty by default.
   */
  sourceId: string
}>

const NAMES: ReadonlySet<string> = new Set(['keyPrefix', 'subscriber', 'sourceId'])

export interface RedisSettings {
  readonly keyPrefix: string
  readonly subscriber: RedisSubscriber | false | undefined
  readonly sourceId: string
}

/** @throws InvalidArgumentError naming the first option that is wrong. */
export function readRedisOptions(options: RedisOptions): RedisSettings {
  if (typeof options !== 'object' || options === null || Array.isArray(options)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && !NAMES.has(name)) {
      throw new InvalidArgumentError(name, value, `one of ${[...NAMES].join(', ')}`)
    }
  }
  const { keyPrefix = KEY_PREFIX_DEFAULT, subscriber, sourceId = '' } = options
  return {
    keyPrefix: shortText('keyPrefix', keyPrefix),
    subscriber: readSubscriber(subscriber),
    sourceId: shortText('sourceId', sourceId),
  }
}

function shortText(option: string, value: unknown): string {
  if (
    typeof value !== 'string' ||
    Buffer.byteLength(value) > BYTES_MAX ||
    value.includes('\0') ||
    !value.isWellFormed()
  ) {
    const allowed = `text of up to ${BYTES_MAX} bytes of UTF-8, without NUL`
    throw new InvalidArgumentError(option, value, allowed)
  }
  return value
}

function readSubscriber(given: unknown): RedisSubscriber | false | undefined {
  if (given === undefined || given === false) return given
  const shape = given as Partial<Record<keyof RedisSubscriber, unknown>> | null
  const methods = [shape?.subscribe, shape?.unsubscribe, shape?.on]
  if (typeof given !== 'object' || methods.some((method) => typeof method !== 'function')) {
    const allowed = 'false, or a client with subscribe, unsubscribe and on'
    throw new InvalidArgumentError('subscriber', given, allowed)
  }
  return given as RedisSubscriber
}
