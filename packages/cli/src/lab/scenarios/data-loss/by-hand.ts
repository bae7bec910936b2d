/** Locks with a token as a program writes them by hand: on one Redis, and on several by a majority. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'

/** Lock and counter in one script, as a program has them that takes its tokens from INCR. */
export const SET_AND_INCR = `
  if redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2], 'NX') then
    return redis.call('INCR', KEYS[2])
  end
  return 0
`
export const COMPARE_AND_DELETE = `
  if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
  return 0
`

/** Of the form that the guard asks for. */
export function newOwner(): string {
  return randomBytes(16).toString('base64url')
}

/** A node that has not answered by then does not count. */
const NODE_MS_MAX = 2_000

/**
 * The algorithm as it is usually written: the key on every node, a majority decides, and the token is
 * the largest of their counters. Nothing tells a node that has lost its data from one that never had any.
 */
export class QuorumByHand {
  readonly #nodes: readonly Redis[]

  constructor(ports: readonly number[]) {
    this.#nodes = ports.map((port) => {
      const redis = new Redis({ host: '127.0.0.1', port })
      // Every command reports its own failure; without a listener the event would end the process.
      redis.on('error', () => {})
      return redis
    })
  }

  /** @returns the token, or null when no majority granted it; then nothing of it is left. */
  async take(lockName: string, owner: string, ttlMs: number): Promise<string | null> {
    const keys = [lockName, `${lockName}:fence`]
    const counters = await this.#majorityOf((node) =>
      node.eval(SET_AND_INCR, 2, ...keys, owner, ttlMs),
    )
    if (counters !== null) return `${Math.max(...counters)}`
    await this.free(lockName, owner)
    return null
  }

  async free(lockName: string, owner: string): Promise<void> {
    await this.#majorityOf((node) => node.eval(COMPARE_AND_DELETE, 1, lockName, owner))
  }

  /** The numbers that a majority answered first, each above 0; null when no majority did. */
  #majorityOf(ask: (node: Redis) => Promise<unknown>): Promise<number[] | null> {
    return new Promise((resolve) => {
      const answers: number[] = []
      let open = this.#nodes.length
      const hear = (answer: unknown): void => {
        open -= 1
        if (Number(answer) > 0) answers.push(Number(answer))
        if (answers.length > this.#nodes.length / 2) resolve(answers)
        else if (open === 0) resolve(null)
      }
      for (const node of this.#nodes) void inTime(ask(node)).then(hear)
    })
  }

  close(): void {
    for (const node of this.#nodes) node.disconnect()
  }
}

/** 0 where there is no answer, or none in time. */
async function inTime(asked: Promise<unknown>): Promise<unknown> {
  const timer = new AbortController()
  const late = sleep(NODE_MS_MAX, 0, { signal: timer.signal }).catch(() => 0)
  const answer = await Promise.race([asked.catch(() => 0), late])
  timer.abort()
  return answer
}
