import { describe, it } from 'vitest'
import { memoryBackend, memoryBackendWith } from '../../src/backends/memory/memory.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { testElection } from '../../src/testkit/election-suite.ts'
import { createVirtualClock, seamsOf, type VirtualClock } from '../../src/testkit/virtual-clock.ts'

/** One process shares one backend, so both sides are the same. */
function opened(both: Backend, clock?: VirtualClock): OpenBackends {
  return { ours: both, theirs: both, clock, close: () => both.close() }
}

const real = async () => opened(memoryBackend())
testBackend({ describe, it }, { title: 'memory', ttlMsMin: 50, open: real })
testElection({ describe, it }, { title: 'memory', ttlMsMin: 50, open: real })

const virtual = async () => {
  const clock = createVirtualClock()
  return opened(memoryBackendWith(seamsOf(clock)), clock)
}
testBackend({ describe, it }, { title: 'memory on virtual time', ttlMsMin: 50, open: virtual })
testElection({ describe, it }, { title: 'memory on virtual time', ttlMsMin: 50, open: virtual })
