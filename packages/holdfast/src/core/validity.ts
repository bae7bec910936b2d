/**
 * The arithmetic of a lease's life, in pure functions.
 *
 *     sentAt ──────────────────────────────▶ deadline ─ margin ─▶ validity ends ─ allowance ─▶ TTL
 *
 * Guarantee: while clock rates differ by less than 1 %, a holder that stops at the deadline has
 * stopped before the store may give the name away, because the store counts the TTL from the
 * request's execution, which is after `sentAt`.
 *
 * The seed's formula is `validity = TTL - (acquisition time + clock drift + safety factor)`. Time
 * spent asking is covered by counting from before the request left, never from the reply: one
 * round trip of belief in a lease that has ended is enough for two holders.
 */

/** Clock rates may differ by this share: 1 %, as in the Redlock description. */
const DRIFT_RATE = 0.01
/** Both sides round to milliseconds. */
const ROUNDING_MS = 2

const MARGIN_MS_MIN = 50
const MARGIN_MS_MAX = 2000
const LEAST_REST_MS = 10
const REQUEST_TIMEOUT_MS_MAX = 2000
const RENEWAL_TIMEOUT_MS_MIN = 50

/** What validity gives up for a difference in clock rates: `ttl * 0.01 + 2`, rounded up. */
export function driftAllowanceMs(ttlMs: number): number {
  return Math.ceil(ttlMs * DRIFT_RATE + ROUNDING_MS)
}

/** What the holder keeps to stop in: `min(max(50, ttl / 10), ttl / 4, 2000)`. */
export function marginMs(ttlMs: number): number {
  return Math.min(Math.max(MARGIN_MS_MIN, ttlMs / 10), ttlMs / 4, MARGIN_MS_MAX)
}

/**
 * Milliseconds from `sentAt` to the one deadline: signal, `assertValid`, `remainingMs` and "lost"
 * all use it. Rounded down.
 */
export function lifeMs(ttlMs: number): number {
  return Math.floor(ttlMs - driftAllowanceMs(ttlMs) - marginMs(ttlMs))
}

/** A grant with less than this left is cancelled: `max(10, ttl / 10)`. */
export function leastRestMs(ttlMs: number): number {
  return Math.max(LEAST_REST_MS, ttlMs / 10)
}

/** A third of the TTL, rounded down: two failed renewals still leave one. */
export function renewEveryMs(ttlMs: number): number {
  return Math.floor(ttlMs / 3)
}

/** After a failed renewal: `max(ttl / 10, 10)`. */
export function renewRetryMs(ttlMs: number): number {
  return Math.max(ttlMs / 10, LEAST_REST_MS)
}

/** An acquire is pointless once its grant would be cancelled; 2 s bounds it for long TTLs. */
export function acquireTimeoutMs(ttlMs: number): number {
  return Math.min(lifeMs(ttlMs) - leastRestMs(ttlMs), REQUEST_TIMEOUT_MS_MAX)
}

/** One request of a renewal: a tenth of the TTL, 50 ms to 2 s. */
export function renewTimeoutMs(ttlMs: number): number {
  return Math.min(Math.max(ttlMs / 10, RENEWAL_TIMEOUT_MS_MIN), REQUEST_TIMEOUT_MS_MAX)
}

/** A question that changes nothing, and the upper bound of every other request. */
export const requestTimeoutMsMax: number = REQUEST_TIMEOUT_MS_MAX
