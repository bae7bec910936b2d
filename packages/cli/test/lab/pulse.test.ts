import { expect, test } from 'vitest'
import { Pulse } from '../../src/lab/scenarios/watchdog/pulse.ts'
import { monotonicUs } from '../../src/lab/time.ts'

const BLOCK_MS = 400

// A holder that stood still between the grant of its first lock and that of its last one lost the first, and
// the round counted as that of a running holder: the gap had been forgotten.
test('a gap counts for what was held when it was over, and for nothing later', () => {
  const pulse = new Pulse()
  try {
    const beforeUs = monotonicUs()
    const untilMs = performance.now() + BLOCK_MS
    while (performance.now() < untilMs) {
      // Nothing else runs in this process.
    }
    expect(pulse.longestGapMsSince(beforeUs)).toBeGreaterThanOrEqual(BLOCK_MS - 10)
    expect(pulse.longestGapMsSince(monotonicUs())).toBeLessThan(BLOCK_MS - 10)
    expect(pulse.longestGapMs()).toBeGreaterThanOrEqual(BLOCK_MS - 10)
  } finally {
    pulse.stop()
  }
})
