/**
 * The `run_id` of the server at the other end of a connection, so that scripts that vote need not ask
 * for it each time.
 *
 * Guarantee: while `runId()` is not empty, whatever is given to the client in the same turn goes to the
 * very process that told it, or nowhere.
 *
 * R1. It is read on the connection that is ready, after it was, and forgotten before the driver can
 *     write to another one: both drivers tell of an end before they are ready again.
 * R2. The driver keeps nothing back for a later connection: no offline queue, no resending. What
 *     node-redis writes in its next turn is refused if the connection ends before.
 * R3. An answer that comes when its connection has ended already counts for nothing.
 *
 * A connection leads to one process for life. What takes connections apart into requests, as a proxy
 * that speaks Redis, breaks that: docs/connect.md says so.
 */
import { type OwnConnection, setOwnConnection } from '../clients/own-connections.ts'
import { defineScript, scriptsOf } from '../clients/redis.ts'
import { type Seams, systemSeams } from '../core/seams.ts'
import type { Connection } from './redis.ts'

const RUN_ID = defineScript(
  'run-id',
  `-- The server's own id, new at each start.
--
-- Reply: 40 hexadecimal digits; '' where this user may not ask
local ok, info = pcall(redis.call, 'INFO', 'server')
return ok and string.match(info, 'run_id:(%x+)') or ''
`,
)

/** A server that loads its data refuses scripts, and the user's rights may change. */
const AGAIN_MS = 1000

export class RunIdReader implements OwnConnection {
  readonly #scripts: ReturnType<typeof scriptsOf>
  readonly #seams: Seams
  /** How many connections there were, and ends of connections. */
  #epoch = 0
  #runId = ''
  #cancel: () => void = () => undefined

  /** Before the client is connected. */
  constructor(
    { client, onLost }: Pick<Connection, 'client' | 'onLost'>,
    seams: Seams = systemSeams,
  ) {
    this.#scripts = scriptsOf(client)
    this.#seams = seams
    setOwnConnection(client, this)
    onLost(() => this.#forget())
  }

  runId(): string {
    return this.#runId
  }

  readonly onReady = (): void => {
    this.#forget()
    this.#ask(this.#epoch)
  }

  end(): void {
    this.#forget()
  }

  #forget(): void {
    this.#epoch += 1
    this.#runId = ''
    this.#cancel()
  }

  #ask(epoch: number): void {
    const again = (): void => {
      if (epoch !== this.#epoch) return
      this.#cancel = this.#seams.after(AGAIN_MS, () => this.#ask(epoch))
    }
    this.#scripts
      .run(RUN_ID, [], [], (reply) => {
        const runId = String(reply)
        // R3.
        if (epoch === this.#epoch && /^[0-9a-f]{40}$/.test(runId)) this.#runId = runId
      })
      .catch(again)
  }
}
