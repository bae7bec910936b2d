/** Checks that the options of several backends share. */
import { InvalidArgumentError } from './errors.ts'

const BYTES_MAX = 64

/** @throws InvalidArgumentError unless `value` is a whole number from `min` to `max`. */
export function whole(option: string, value: unknown, min: number, max: number): number {
  if (Number.isSafeInteger(value) && (value as number) >= min && (value as number) <= max) {
    return value as number
  }
  throw new InvalidArgumentError(option, value, `a whole number from ${min} to ${max}`)
}

/** @throws InvalidArgumentError unless `value` is text that may be part of a key. */
export function shortText(option: string, value: unknown): string {
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
