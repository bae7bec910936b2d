/** Who takes part, and what is asked of them. */

/**
 * The Redis clients, as their users open them. node-redis 6 has a time-out for each command, which
 * costs it about half of its rate; the last is the same client without it.
 */
export const CLIENTS = ['ioredis', 'node-redis', 'node-redis, timeout 0'] as const
export type ClientName = (typeof CLIENTS)[number]

/** How the parts of one comparison are told apart. */
export interface Label {
  /** `hand-written`, `holdfast`, or the name of a peer. */
  readonly who: string
  /** What distinguishes two rows of one `who`; empty for the usual form. */
  readonly variant: string
  /** The driver; ratios are taken between rows of one driver. */
  readonly client: string
}

/** One way to lock, on the Redis of a port or in the files of a folder. */
export interface Contestant<Place = number> extends Label {
  /** The release leaves a lock alone that is somebody else's by then. */
  readonly isOwnerChecked: boolean
  /** It gives a larger number with every grant. */
  readonly hasToken: boolean
  /** Opens connections of its own, so that no contestant queues behind another. */
  connect(place: Place): Promise<Locker>
}

export interface Locker {
  /** Resolves when the lock is held, waiting for it if need be. @throws when it was not granted. */
  acquire(lockName: string): Promise<Release>
  close(): Promise<void>
}

/** Gives the lock up. @throws when the library says that it was no longer held. */
export type Release = () => Promise<void>

/** Longer than any slice of the bench, so that no grant ends by itself. Milliseconds. */
export const TTL_MS = 30_000
/** Nobody waits so long unless something is broken. Milliseconds. */
export const WAIT_MS = 20_000
/** Between two tries of those who wait by asking again, where it can be set; more or less by the jitter. */
export const RETRY_MS = 10
export const RETRY_JITTER_MS = 5
/** More tries than fit into the longest wait. */
export const RETRIES_MAX: number = Math.ceil(WAIT_MS / (RETRY_MS - RETRY_JITTER_MS))
