import type { PauseKind } from './pause-kind.ts'

/**
 * Real collections of a real heap, one after another, until the time is over.
 *
 * One collection of 40 MB of small objects takes 50 ms of a core, so the pause ends at most that
 * much late; with 90 MB it took 150 ms, on a busy machine half a second. `gc()` is called bare: with `{ type: 'major', execution: 'sync' }` Node 20 only scavenges.
 * The objects must be reachable from the outside of any function, or the first collection frees
 * them and the following ones take no time.
 */
export const gcPause: PauseKind = {
  name: 'gc',
  description: 'garbage collections of a heap of 40 MB, one after another',
  execArgv: ['--expose-gc'],
  // Collecting keeps a core busy, and helps itself to threads on the others.
  lanesMax: (coreCount) => 2 * coreCount,
  prepare: fillHeap,
  pause: async (pauseMs) => {
    const collect = globalThis.gc
    if (collect === undefined) throw new Error('this process was started without --expose-gc')
    const endsAtMs = performance.now() + pauseMs
    while (performance.now() < endsAtMs) collect()
  },
}

const HEAP_BYTES = 40 * 1024 * 1024
const CHUNK_LENGTH = 10_000

const live: object[][] = []

function fillHeap(): void {
  // Bounded by count as well: a chunk takes at least 100 kB, so 1,000 chunks are always enough.
  for (let chunk = 0; chunk < 1_000 && process.memoryUsage().heapUsed < HEAP_BYTES; chunk++) {
    live.push(Array.from({ length: CHUNK_LENGTH }, (_, index) => ({ index, chunk })))
  }
}
