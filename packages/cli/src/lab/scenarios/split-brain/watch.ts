/**
 * The lab's own look at the entries of the locks, past proxies and clients, on the nodes that the
 * other side can reach. While an entry of the holder stands on one of them that the other side needs,
 * nobody else can be granted the lock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import { openRedis } from '../ground/redis-client.ts'
import type { HeldLock } from '../watchdog/holder.ts'

const LOOK_EVERY_MS = 10
/** A node beyond the quorum gets its entry a little later than the holder its grant. */
const THERE_MS_MAX = 10_000
/** `hf1:` and the 22 characters of an owner; see docs/wire.md. */
const OWNER_AT = 4
const OWNER_LENGTH = 22

export interface Watch {
  /** Resolves when no entry of the holder is left, or at once after {@link Watch.stop}. */
  readonly over: Promise<void>
  /** The longest time between two looks of which the second found an entry gone. */
  gapMs(): number
  stop(): void
}

interface Standing {
  readonly lock: HeldLock
  readonly owner: string
  /** When it was asked for at the last look that found it. */
  seenAtUs: number
}

/** Resolves when the entries of the holder have been seen there. */
export async function watchNode(
  trial: Trial,
  port: number,
  locks: readonly HeldLock[],
): Promise<Watch> {
  const redis = await openRedis({ redis: { host: '127.0.0.1', port } })
  trial.onEnd(async () => redis.disconnect())
  const standing = await seeAll(redis, locks)
  let gapMs = 0
  let isOver = false
  const look = async (): Promise<void> => {
    while (!isOver && standing.size > 0) {
      const calledAtUs = monotonicUs()
      for (const [one, owner] of await ownersOf(redis, [...standing])) {
        if (owner === one.owner) {
          one.seenAtUs = calledAtUs
          continue
        }
        standing.delete(one)
        const value = (monotonicUs() - one.seenAtUs) / 1_000
        gapMs = Math.max(gapMs, value)
        const outcome = { answer: owner === '' ? 'free' : 'other', owner: one.owner, value }
        trial.note(one.lock.round, 'gone', one.seenAtUs, { ...outcome, detail: `port ${port}` })
      }
      await sleep(LOOK_EVERY_MS)
    }
    redis.disconnect()
  }
  const stop = (): void => {
    isOver = true
  }
  return { over: look(), gapMs: () => gapMs, stop }
}

async function seeAll(redis: Redis, locks: readonly HeldLock[]): Promise<Set<Standing>> {
  const giveUpAtMs = performance.now() + THERE_MS_MAX
  for (;;) {
    const seenAtUs = monotonicUs()
    const standing = locks.map((lock) => ({ lock, owner: '', seenAtUs }))
    const seen = await ownersOf(redis, standing)
    if (seen.every(([, owner]) => owner !== '')) {
      return new Set(seen.map(([one, owner]) => ({ ...one, owner })))
    }
    if (performance.now() > giveUpAtMs) throw new Error('a node has not the entries of the holder')
    await sleep(LOOK_EVERY_MS)
  }
}

async function ownersOf(
  redis: Redis,
  standing: readonly Standing[],
): Promise<(readonly [Standing, string])[]> {
  const values = await redis.mget(standing.map(({ lock }) => `lock:${lock.name}`))
  return standing.map((one, index) => {
    const owner = (values[index] ?? '').slice(OWNER_AT, OWNER_AT + OWNER_LENGTH)
    return [one, owner] as const
  })
}
