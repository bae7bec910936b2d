/** The lock of each performance, and the lab's look at its entry. */
import type { DrawId, Outcome } from '../../history.ts'
import type { Round } from '../../scenario.ts'
import type { LockStores } from '../ground/ground.ts'

/** Each performance has a lock of its own, so that nothing is left of the one before. */
function lockNameOf({ round, draw }: DrawId, place: string): string {
  return `${place}:${round}:${draw}`
}

export function nameIn(round: Round): string {
  return lockNameOf(round, round.place)
}

/** Whose the lock is just now, by the store's own word. */
export async function lookAtEntry(stores: LockStores, id: DrawId, place: string): Promise<Outcome> {
  return { answer: 'seen', detail: await stores.entryOf(lockNameOf(id, place)) }
}
