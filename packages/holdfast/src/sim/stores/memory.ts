/** The real memory backend in a process of its own, as a store behind a network. */
import { memoryBackendWith } from '../../backends/memory/memory.ts'
import { Link } from '../link.ts'
import { remoteBackend } from '../remote-backend.ts'
import { TTL_MS } from '../scenarios.ts'
import type { Ground, LockStore } from './store.ts'

export function memoryStore({ random, scenario, process }: Ground): LockStore {
  const server = process('locks')
  const store = memoryBackendWith(server.seams)
  return {
    accidents: {
      pause: () => server.pause(random.between(0, TTL_MS)),
      step: () => {
        const byMs = random.between(...scenario.storeStepMs)
        // It ends locks by its monotonic clock, which goes back on no machine.
        if (byMs > 0) server.stepMonotonic(byMs)
        server.stepWall(random.between(...scenario.storeStepMs))
      },
    },
    reach: (client) => {
      const link = new Link(client, server, random, scenario.weather)
      return { backend: remoteBackend(client, link, store), links: [link] }
    },
    look: () => {},
  }
}
