/** The real side: one transaction that asks, reads the clock before and after, and lists all keys. */
import type { Redis } from 'ioredis'
import type { RedisScript } from '../../../src/clients/redis.ts'
import type { Step } from './steps.ts'

export interface SeenKey {
  readonly type: string
  readonly value: string
  /** Milliseconds since 1970; -1: it never ends. */
  readonly expiresAtMs: number
}

/** What one step did to a server. */
export interface Seen {
  /** TIME before and after, microseconds since 1970. */
  readonly fromUs: number
  readonly toUs: number
  readonly reply: unknown
  readonly keys: ReadonlyMap<string, SeenKey>
  /** Channels, in the order of the messages. */
  readonly published: readonly string[]
}

const ALL_KEYS = `
local reply = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local value = kind == 'string' and redis.call('GET', key) or ''
  reply[#reply + 1] = {key, kind, value, redis.call('PEXPIRETIME', key)}
end
return reply
`
/** Published behind each step, so that messages are known to be its own. */
const END_OF_STEP = 'end of step'

export class Server {
  readonly #redis: Redis
  readonly #subscriber: Redis
  readonly #channels: string[] = []
  readonly #names = new Map<RedisScript, string>()
  #endCount = 0
  #onEnd: () => void = () => undefined
  #allKeys = ''
  #isReady = false

  constructor(redis: Redis) {
    this.#redis = redis
    this.#subscriber = redis.duplicate()
  }

  /** @param luaOf The text that the server gets of a script. */
  async open(
    scripts: Iterable<RedisScript>,
    luaOf: (script: RedisScript) => string,
  ): Promise<void> {
    this.#allKeys = String(await this.#redis.script('LOAD', ALL_KEYS))
    for (const script of scripts) {
      this.#names.set(script, String(await this.#redis.script('LOAD', luaOf(script))))
    }
    if (this.#isReady) return
    this.#isReady = true
    this.#subscriber.on('pmessage', (_pattern: string, channel: string) => {
      this.#channels.push(channel)
      if (channel !== END_OF_STEP) return
      this.#endCount += 1
      this.#onEnd()
    })
    await this.#subscriber.psubscribe('*')
  }

  async runId(): Promise<string> {
    return /run_id:(\w+)/.exec(await this.#redis.info('server'))?.[1] ?? ''
  }

  async clear(): Promise<void> {
    await this.#redis.flushall()
  }

  close(): void {
    this.#subscriber.disconnect()
  }

  /**
   * One step in each database, by index.
   *
   * @param inOne In one MULTI. Under OOM Redis queues nothing for one; there the order of one
   *   connection has to do, and nobody else is on this server.
   */
  async run(steps: readonly Step[], inOne: boolean): Promise<Seen[]> {
    const all = inOne ? this.#redis.multi() : this.#redis.pipeline()
    const places: (readonly [step: number, dump: number])[] = []
    let place = 0
    steps.forEach((step, database) => {
      const commands = this.#commandsOf(step)
      all.select(database).time()
      for (const [name = '', ...rest] of commands) all.call(String(name), ...rest)
      all.evalsha(this.#allKeys, 0).time().publish(END_OF_STEP, '')
      places.push([place + 1, place + 2 + commands.length])
      place += commands.length + 5
    })
    this.#channels.length = 0
    this.#endCount = 0
    const replies = ((await all.exec()) ?? []).map(([error, reply]) => error ?? reply)
    await this.#ended(steps.length)
    const published = this.#publishedByStep(steps.length)
    return places.map(([first, dump], index) => ({
      fromUs: usOf(replies[first]),
      toUs: usOf(replies[dump + 1]),
      // Of several commands, as for a list, the last.
      reply: replies[dump - 1],
      keys: keysOf(replies[dump]),
      published: published[index] ?? [],
    }))
  }

  /** Waits until keys that are about to end are gone. */
  async untilGone(keys: readonly (readonly [database: number, key: string])[]): Promise<void> {
    const endMs = performance.now() + 15_000
    for (const [database, key] of keys) {
      await this.#redis.select(database)
      while ((await this.#redis.exists(key)) === 1) {
        if (performance.now() > endMs) throw new Error(`"${key}" does not end`)
      }
    }
  }

  #commandsOf(step: Step): (string | number | Buffer)[][] {
    if (step.kind === 'remove') return [['DEL', step.key]]
    if (step.kind === 'persist') return [['PERSIST', step.key]]
    if (step.kind === 'script') {
      const name = this.#names.get(step.script) ?? ''
      return [['EVALSHA', name, step.keys.length, ...step.keys, ...step.args]]
    }
    const { key, value, lifeMs } = step
    if (value === null)
      return [
        ['DEL', key],
        ['RPUSH', key, 'x'],
      ]
    return [['SET', key, value, ...(lifeMs === null ? [] : ['PX', lifeMs])]]
  }

  #ended(count: number): Promise<void> {
    return new Promise((resolve) => {
      this.#onEnd = () => {
        if (this.#endCount === count) resolve()
      }
      this.#onEnd()
    })
  }

  #publishedByStep(count: number): string[][] {
    const found: string[][] = Array.from({ length: count }, () => [])
    let step = 0
    for (const channel of this.#channels) {
      if (channel === END_OF_STEP) step += 1
      else found[step]?.push(channel)
    }
    return found
  }
}

function usOf(reply: unknown): number {
  const [seconds, us] = reply as [string, string]
  return Number(seconds) * 1_000_000 + Number(us)
}

function keysOf(reply: unknown): Map<string, SeenKey> {
  const rows = reply as [string, string, string, number][]
  return new Map(rows.map(([key, type, value, expiresAtMs]) => [key, { type, value, expiresAtMs }]))
}
