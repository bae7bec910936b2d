import { describe, it } from 'vitest'
import { memoryBackend, memoryBackendWith } from '../../src/backends/memory/memory.ts'
import { testBackend } from '../../src/testkit/backend-suite.ts'
import { createVirtualClock, seamsOf } from '../../src/testkit/virtual-clock.ts'

testBackend(
  { describe, it },
  {
    title: 'memory',
    ttlMsMin: 50,
    open: async () => {
      const both = memoryBackend()
      return { ours: both, theirs: both, close: () => both.close() }
    },
  },
)

testBackend(
  { describe, it },
  {
    title: 'memory on virtual time',
    ttlMsMin: 50,
    open: async () => {
      const clock = createVirtualClock()
      const both = memoryBackendWith(seamsOf(clock), { ttlMsMin: 1 })
      return { ours: both, theirs: both, clock, close: () => both.close() }
    },
  },
)
