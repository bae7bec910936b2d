/** The options of the PostgreSQL guard: default, range, check. */
import type { Options } from '../../core/backend.ts'
import { InvalidArgumentError } from '../../core/errors.ts'
import { integer } from '../../core/options.ts'

export type PostgresIsolation = 'read committed' | 'repeatable read' | 'serializable'

export type PostgresGuardOptions = Options<{
  /**
   * Where the guard's table `fences` lies: `holdfast`. 1 to 63 bytes of UTF-8, taken exactly as
   * written.
   */
  schema: string
  /**
   * The bound of one guarded call for a plain `Fenced`, of whose validity nothing is known: 10,000,
   * as long as a transaction that holds a row should ever last. 100 to 600,000 milliseconds. A lease
   * brings its own bound, its validity.
   */
  timeoutMs: number
  /**
   * Which record of the fence a lock name stands for: the lock name itself. Two lock names with one
   * record exclude each other's late writes only if their tokens rise together.
   */
  resource: (lockName: string) => string
  /** Of the guard's own transactions: the database's default. */
  isolation: PostgresIsolation
}>

/** Checked and complete. */
export type GuardSettings = Readonly<{
  schema: string
  timeoutMs: number
  resource: (lockName: string) => string
  isolation: PostgresIsolation | undefined
}>

const ISOLATIONS: readonly string[] = ['read committed', 'repeatable read', 'serializable']
const NAMES: readonly string[] = ['schema', 'timeoutMs', 'resource', 'isolation']

const SCHEMA_DEFAULT = 'holdfast'
/** PostgreSQL cuts longer names silently (NAMEDATALEN - 1), and two of them would be one. */
const SCHEMA_BYTES_MAX = 63
const TIMEOUT_MS_DEFAULT = 10_000
const TIMEOUT_MS_MIN = 100
const TIMEOUT_MS_MAX = 600_000
/** An entry of a unique index must fit into a third of a page, about 2,700 bytes. */
const RECORD_BYTES_MAX = 1024

/** @throws InvalidArgumentError naming the first option that is wrong. */
export function readGuardOptions(options: unknown): GuardSettings {
  const own = (options ?? {}) as Record<string, unknown>
  if (typeof own !== 'object' || Array.isArray(own)) {
    throw new InvalidArgumentError('options', options, 'an object with options')
  }
  for (const name of Object.keys(own)) {
    if (own[name] !== undefined && !NAMES.includes(name)) {
      throw new InvalidArgumentError(name, own[name], `one of ${NAMES.join(', ')}`)
    }
  }
  const { schema, timeoutMs, resource, isolation } = own
  if (resource !== undefined && typeof resource !== 'function') {
    throw new InvalidArgumentError('resource', resource, 'a function from lock name to text')
  }
  if (isolation !== undefined && !ISOLATIONS.includes(isolation as string)) {
    throw new InvalidArgumentError('isolation', isolation, `one of ${ISOLATIONS.join(', ')}`)
  }
  return {
    schema: storableText('schema', schema ?? SCHEMA_DEFAULT, SCHEMA_BYTES_MAX),
    timeoutMs: integer(
      'timeoutMs',
      timeoutMs ?? TIMEOUT_MS_DEFAULT,
      TIMEOUT_MS_MIN,
      TIMEOUT_MS_MAX,
      ' milliseconds',
    ),
    resource: (resource as GuardSettings['resource'] | undefined) ?? ((lockName) => lockName),
    isolation: isolation as PostgresIsolation | undefined,
  }
}

/**
 * Text that PostgreSQL stores as it is. It has no NUL, and half a surrogate pair would be replaced on
 * the way, so that two texts became one.
 */
export function storableText(
  option: string,
  value: unknown,
  bytesMax: number = RECORD_BYTES_MAX,
): string {
  if (
    typeof value !== 'string' ||
    value === '' ||
    Buffer.byteLength(value) > bytesMax ||
    value.includes('\0') ||
    !value.isWellFormed()
  ) {
    throw new InvalidArgumentError(
      option,
      value,
      `well-formed text of 1 to ${bytesMax} bytes of UTF-8, without NUL`,
    )
  }
  return value
}
