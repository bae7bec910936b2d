/** A connection beside the contestants', used between slices only. */
import type { Redis } from 'ioredis'
import { openIoredis } from './clients.ts'

/** Bounds the learning of what a contestant sends. Milliseconds. */
const LEARN_MS_MAX = 5_000
const MARK = 'bench:learned'

/** How often each command ran since the counters were reset, by its name in lower case. */
export type CommandCounts = ReadonlyMap<string, number>

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

  async resetCounts(): Promise<void> {
    await this.#redis.config('RESETSTAT')
  }

  async counts(): Promise<CommandCounts> {
    const info = await this.#redis.info('commandstats')
    const lines = info.matchAll(/^cmdstat_([^:|]+)(?:\|[^:]+)?:calls=(\d+)/gm)
    const counts = new Map<string, number>()
    for (const [, name = '', calls] of lines) {
      counts.set(name, (counts.get(name) ?? 0) + Number(calls))
    }
    return counts
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

export function sumOfCounts(counts: CommandCounts, names: Iterable<string>): number {
  let sum = 0
  for (const name of names) sum += counts.get(name) ?? 0
  return sum
}
