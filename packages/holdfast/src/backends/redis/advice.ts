/** What an operator should know about client and server, each told once. */

import type { RedisClient, RedisFamily } from '../../clients/redis.ts'
import { clientOptionWarnings } from '../../clients/redis-client-options.ts'
import type { Warning } from '../../core/events.ts'

type Warn = (warning: Warning) => void

/** As far as this user may ask. */
export type ServerFacts = Readonly<{
  /** The server's maxmemory-policy, or '' where this user may not ask. */
  policy: string
  /** A replica that takes writes; false where this user may not ask. */
  isWritableReplica: boolean
}>

export class Advice {
  readonly #client: RedisClient
  readonly #family: RedisFamily
  readonly #askFacts: (lockName: string) => Promise<ServerFacts>
  #hasToldOptions = false
  #hasAskedFacts = false

  constructor(
    client: RedisClient,
    family: RedisFamily,
    askFacts: (lockName: string) => Promise<ServerFacts>,
  ) {
    this.#client = client
    this.#family = family
    this.#askFacts = askFacts
  }

  /** At the first use, when those who want to hear it have had time to say so. */
  beforeRequest(warn: Warn): void {
    if (this.#hasToldOptions) return
    this.#hasToldOptions = true
    for (const warning of clientOptionWarnings(this.#client, this.#family)) warn(warning)
  }

  /** After the first answer, so that no request waits for it. */
  afterAnswer(warn: Warn, lockName: string): void {
    if (this.#hasAskedFacts) return
    this.#hasAskedFacts = true
    this.#askFacts(lockName).then(
      (facts) => {
        for (const warning of serverWarnings(facts)) warn(warning)
      },
      () => {
        // Whatever is wrong, the next request tells its caller.
      },
    )
  }
}

function serverWarnings({ policy, isWritableReplica }: ServerFacts): Warning[] {
  const warnings: Warning[] = []
  if (policy !== '' && policy !== 'noeviction') {
    const option = 'maxmemory-policy'
    const advice =
      `set ${option} noeviction on the server of the locks: under ${policy} ` +
      'it may throw out a lock that is held, or the counter of its tokens'
    warnings.push({ code: 'eviction-policy', advice, option, value: policy })
  }
  if (isWritableReplica) {
    const option = 'replica-read-only'
    const advice =
      `connect to the primary, and set ${option} yes: this server is a replica that takes writes; ` +
      'what is locked here is locked nowhere else, and gone when it synchronises again'
    warnings.push({ code: 'writable-replica', advice, option, value: 'no' })
  }
  return warnings
}
