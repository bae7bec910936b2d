/**
 * The clock of recorded histories.
 *
 * CLOCK_MONOTONIC is one clock for all processes of a machine, so times that different workers
 * recorded can be compared. It stands still while the machine is suspended, which is the same for
 * all of them.
 */

/** Microseconds since an arbitrary moment, the same for every process of this machine. */
export function monotonicUs(): number {
  return Number(process.hrtime.bigint() / 1000n)
}
