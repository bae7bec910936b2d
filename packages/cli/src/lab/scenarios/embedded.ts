/** Those that need no server: the same experiments on files of SQLite. */
import { scenario as campaign } from './campaign/embedded.ts'
import { scenario as failover } from './failover/embedded.ts'
import type { KnownScenario } from './index.ts'
import { scenario as lateWrite } from './late-write/embedded.ts'
import { scenario as pause } from './pause/embedded.ts'
import { scenario as ttl } from './ttl/embedded.ts'
import { scenario as unlock } from './unlock/embedded.ts'
import { scenario as watchdog } from './watchdog/embedded.ts'
import { scenario as withdraw } from './withdraw/embedded.ts'

const moduleOf = (name: string): string => new URL(`./${name}/embedded.js`, import.meta.url).href

/** In the order in which a run without names takes them. */
export const EMBEDDED: readonly KnownScenario[] = [
  pause,
  unlock,
  withdraw,
  lateWrite,
  campaign,
  watchdog,
  failover,
  ttl,
].map((scenario) => ({ scenario, module: moduleOf(scenario.name) }))
