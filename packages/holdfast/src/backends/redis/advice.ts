/** What an operator should know about client and server, each told once. */

import type { RedisClient, RedisFamily } from '../../clients/redis.ts'
import { clientOptionWarnings } from '../../clients/redis-client-options.ts'
import type { Warning } from '../../core/events.ts'

type Warn = (warning: Warning) => void

export class Advice {
  readonly #client: RedisClient
  readonly #family: RedisFamily
  readonly #askPolicy: (lockName: string) => Promise<string>
  #hasToldOptions = false
  #hasAskedPolicy = false

  /** @param askPolicy The server's maxmemory-policy, or '' where this user may not ask. */
  constructor(
    client: RedisClient,
    family: RedisFamily,
    askPolicy: (lockName: string) => Promise<string>,
  ) {
    this.#client = client
    this.#family = family
    this.#askPolicy = askPolicy
  }

  /** At the first use, when those who want to hear it have had time to say so. */
  beforeRequest(warn: Warn): void {
    if (this.#hasToldOptions) return
    this.#hasToldOptions = true
    for (const warning of clientOptionWarnings(this.#client, this.#family)) warn(warning)
  }

  /** After the first answer, so that no request waits for it. */
  afterAnswer(warn: Warn, lockName: string): void {
    if (this.#hasAskedPolicy) return
    this.#hasAskedPolicy = true
    this.#askPolicy(lockName).then(
      (value) => {
        if (value === '' || value === 'noeviction') return
        const option = 'maxmemory-policy'
        const advice =
          `set ${option} noeviction on the server of the locks: under ${value} ` +
          'it may throw out a lock that is held, or the counter of its tokens'
        warn({ code: 'eviction-policy', advice, option, value })
      },
      () => {
        // Whatever is wrong, the next request tells its caller.
      },
    )
  }
}
