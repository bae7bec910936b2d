/**
 * The lab's own look at the entries of the locks, past proxies and clients, on the nodes that the
 * other side can reach. While an entry of the holder stands on one of them that the other side needs,
 * nobody else can be granted the lock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import type { HeldLock } from '../watchdog/holder.ts'
import type { Look } from './look.ts'

const LOOK_EVERY_MS = 10
/** A node beyond the quorum gets its entry a little later than the holder its grant. */
const THERE_MS_MAX = 10_000

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

/**
 * Resolves when the entries of the holder have been seen there.
 *
 * @param where What it is that is looked at, for the history.
 */
export async function watchEntries(
  trial: Trial,
  look: Look,
  where: string,
  locks: readonly HeldLock[],
): Promise<Watch> {
  trial.onEnd(async () => look.close())
  const standing = await seeAll(look, locks)
  let gapMs = 0
  let isOver = false
  const watch = async (): Promise<void> => {
    while (!isOver && standing.size > 0) {
      const calledAtUs = monotonicUs()
      // Without an answer nothing was seen: an election goes on. The gap between two looks tells of it.
      for (const [one, owner] of await ownersOf(look, [...standing]).catch(() => [])) {
        if (owner === one.owner) {
          one.seenAtUs = calledAtUs
          continue
        }
        standing.delete(one)
        const value = (monotonicUs() - one.seenAtUs) / 1_000
        gapMs = Math.max(gapMs, value)
        const outcome = { answer: owner === '' ? 'free' : 'other', owner: one.owner, value }
        trial.note(one.lock.round, 'gone', one.seenAtUs, { ...outcome, detail: where })
      }
      await sleep(LOOK_EVERY_MS)
    }
    look.close()
  }
  const stop = (): void => {
    isOver = true
  }
  return { over: watch(), gapMs: () => gapMs, stop }
}

async function seeAll(look: Look, locks: readonly HeldLock[]): Promise<Set<Standing>> {
  const giveUpAtMs = performance.now() + THERE_MS_MAX
  for (;;) {
    const seenAtUs = monotonicUs()
    const standing = locks.map((lock) => ({ lock, owner: '', seenAtUs }))
    const seen = await ownersOf(look, standing)
    if (seen.every(([, owner]) => owner !== '')) {
      return new Set(seen.map(([one, owner]) => ({ ...one, owner })))
    }
    if (performance.now() > giveUpAtMs) throw new Error('a node has not the entries of the holder')
    await sleep(LOOK_EVERY_MS)
  }
}

async function ownersOf(
  look: Look,
  standing: readonly Standing[],
): Promise<(readonly [Standing, string])[]> {
  const owners = await look.owners(standing.map(({ lock }) => lock))
  return standing.map((one, index) => [one, owners[index] ?? ''] as const)
}
