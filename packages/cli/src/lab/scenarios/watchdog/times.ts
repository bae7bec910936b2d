/** The TTLs of `watchdog`. */

/**
 * Where the store fails. Told is told 332 ms before the end of it (1 % + 2 ms for clock rates, a
 * tenth of margin), so that a machine that lets a process wait for a quarter of a second does not
 * decide.
 */
export const TTL_MS = 3_000
/** After the TTL: what has not been told by then was not told in time, by far. */
export const WATCH_AFTER_MS = 1_000
/** Of the long job, which lasts ten times as long. */
export const JOB_TTL_MS = 2_000
export const JOB_TTLS = 10
/** Of the holder that blocks its event loop, and for how long it does. */
export const BLOCKED_TTL_MS = 1_000
export const BLOCK_MS = 1_500
/** On etcd, which grants 2 s where one was asked for. */
export const ETCD_BLOCK_MS = 3_000
/** A process that was not served for longer than this was not running: see pulse.ts. */
export const GAP_MS_MAX = 250
