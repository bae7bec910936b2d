/** Text that PostgreSQL stores as it is. */
import { InvalidArgumentError } from '../../core/errors.ts'

/** An entry of a unique index must fit into a third of a page, about 2,700 bytes. */
const RECORD_BYTES_MAX = 1024

/**
 * PostgreSQL's text has no NUL, and half a surrogate pair would be replaced on the way, so that two
 * texts became one.
 *
 * @throws InvalidArgumentError.
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
