/** Connections of one command to the nodes that it was given. */
import { Redis } from 'ioredis'
import type { NodeUrl } from './node-urls.ts'

const CONNECT_MS_MAX = 5000
/** A node that restarts while the command waits is tried again. */
const RETRY_MS = 500

export class Nodes {
  readonly clients: Readonly<Record<string, Redis>>
  /** By node, what the connection ended with last. */
  readonly #errors = new Map<string, string>()

  private constructor(urls: readonly NodeUrl[]) {
    this.clients = Object.fromEntries(urls.map((url) => [url.name, this.#open(url)]))
  }

  /** Resolves when each is connected or has failed once. */
  static async open(urls: readonly NodeUrl[]): Promise<Nodes> {
    const nodes = new Nodes(urls)
    // Who cannot be reached is told of by the command itself.
    await Promise.all(
      Object.values(nodes.clients).map((one) => one.connect().catch(() => undefined)),
    )
    return nodes
  }

  /** Null: nothing has gone wrong. */
  errorOf(name: string): string | null {
    return this.#errors.get(name) ?? null
  }

  /** A line for each node whose connection fails. */
  problems(): string[] {
    return [...this.#errors].map(([name, message]) => `node "${name}": ${message}`)
  }

  close(): void {
    for (const client of Object.values(this.clients)) client.disconnect()
  }

  #open({ name, host, port, db, isTls, username, password }: NodeUrl): Redis {
    const client = new Redis({
      ...{ host, port, db, lazyConnect: true, connectTimeout: CONNECT_MS_MAX },
      ...(username === '' ? {} : { username }),
      ...(password === '' ? {} : { password }),
      ...(isTls ? { tls: {} } : {}),
      // Each step is asked for anew by the command, so that nothing is sent later than it should be.
      ...{ enableOfflineQueue: false, autoResendUnfulfilledCommands: false },
      ...{ maxRetriesPerRequest: 0, enableReadyCheck: false, retryStrategy: () => RETRY_MS },
    })
    client.on('error', (error: Error) => this.#errors.set(name, error.message))
    client.on('ready', () => this.#errors.delete(name))
    return client
  }
}
