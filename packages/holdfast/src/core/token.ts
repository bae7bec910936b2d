/**
 * Fencing tokens are exact 64-bit integers: `bigint` here, decimal text on every wire.
 *
 * Never a JavaScript number and never a Lua number: both are doubles and round above 2^53, and a
 * rounded token can equal the one before it. One exception, where it cannot: a script that has
 * compared the text and found a token well below 2^53 may answer it as an integer.
 */
import { InvalidArgumentError } from './errors.ts'

/** The largest value of a signed 64-bit column, so that every store can keep every token. */
export const TOKEN_MAX: bigint = 2n ** 63n - 1n

/** Digits of {@link TOKEN_MAX}: tokens padded to this width compare as text. */
export const TOKEN_DIGITS = 19

const ALLOWED = 'a bigint from 1 to 9223372036854775807'

/** @throws InvalidArgumentError unless `token` is a bigint from 1 to 2^63 - 1. */
export function checkToken(token: unknown, option = 'fencingToken'): bigint {
  if (typeof token !== 'bigint' || token < 1n || token > TOKEN_MAX) {
    throw new InvalidArgumentError(option, token, ALLOWED)
  }
  return token
}

/** Reads decimal digits as a token, or returns null: text from a store is never trusted. */
export function parseToken(text: string): bigint | null {
  if (!/^[0-9]{1,19}$/.test(text)) return null
  const token = BigInt(text)
  return token >= 1n && token <= TOKEN_MAX ? token : null
}
