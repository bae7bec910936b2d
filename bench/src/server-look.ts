/** A connection beside the contestants', used between slices only. */
import type { Redis } from 'ioredis'
import { openIoredis } from './clients.ts'

/** Bounds the learning of what a contestant sends. Milliseconds. */
const LEARN_MS_MAX = 5_000
const MARK = 'bench:learned'

/** What the server did for some clients' requests. */
export interface Served {
  readonly requests: number
  /** Time that it spent on them, what their scripts called included. Microseconds. */
  readonly serverUs: number
}

export class ServerLook {
  readonly #redis: Redis

  private constructor(redis: Redis) {
    this.#redis = redis
  }

  static async open(port: number): Promise<ServerLook> {
    return new ServerLook(await openIoredis(port))
  }

  close(): void {
    this.#redis.disconnect()
  }

  /** Keys that will expire: locks, and nothing else in a server that nobody waits on. */
  async keysWithTtl(): Promise<number> {
    const info = await this.#redis.info('keyspace')
    return Number(/expires=(\d+)/.exec(info)?.[1] ?? 0)
  }

  async forgetKeys(): Promise<void> {
    await this.#redis.flushall()
  }

  /**
   * What `work` cost the server.
   *
   * @param names The commands that count, as {@link learnRequests} gives them.
   */
  async served<T>(
    names: ReadonlySet<string>,
    work: () => Promise<T>,
  ): Promise<{ result: T; served: Served }> {
    await this.#redis.config('RESETSTAT')
    const result = await work()
    const info = await this.#redis.info('commandstats')
    let requests = 0
    let serverUs = 0
    const lines = info.matchAll(/^cmdstat_([^:|]+)(?:\|[^:]+)?:calls=(\d+),usec=(\d+)/gm)
    for (const [, name = '', calls, usec] of lines) {
      if (!names.has(name)) continue
      requests += Number(calls)
      serverUs += Number(usec)
    }
    return { result, served: { requests, serverUs } }
  }

  /**
   * The commands that clients send while `work` runs, as opposed to what their scripts call. With
   * them a request can be told from a script's own command in counters that cost nothing.
   *
   * @throws when a command is both, because its counter then says nothing.
   */
  async learnRequests(work: () => Promise<void>): Promise<ReadonlySet<string>> {
    const monitor = await this.#redis.monitor()
    const sent = new Set<string>()
    const scripted = new Set<string>()
    try {
      const isOver = new Promise<void>((resolve, reject) => {
        const late = new Error('the server did not show what it was sent')
        const timer = setTimeout(() => reject(late), LEARN_MS_MAX)
        monitor.on('monitor', (_time: string, words: readonly string[], source: string) => {
          const [name = '', key] = words
          if (name === 'echo' && key === MARK) {
            clearTimeout(timer)
            resolve()
          } else if (source === 'lua') scripted.add(name.toLowerCase())
          else sent.add(name.toLowerCase())
        })
      })
      await work()
      await this.#redis.echo(MARK)
      await isOver
    } finally {
      monitor.disconnect()
    }
    const both = [...sent].filter((name) => scripted.has(name))
    if (both.length > 0) throw new Error(`sends ${both.join(', ')}, and its scripts call it too`)
    return sent
  }
}
