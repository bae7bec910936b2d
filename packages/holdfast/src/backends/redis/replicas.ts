/**
 * Grants and renewals that count only once enough replicas have them (WAIT).
 *
 * Guarantee: a grant is returned, an operator's by a revoke too, and a renewal moves the deadline, only
 * after `count` replicas have confirmed that they have the lock, in one piece with a look that it is still
 * there. An unconfirmed grant is cancelled before the caller is told.
 *
 * Does not guarantee: that a failover keeps the lock. WAIT makes nothing synchronous; a replica may
 * confirm and lose its data, and another one than those that confirmed may be promoted.
 *
 * A look of its own is sent, instead of WAIT behind the script that grants: behind each refusal WAIT
 * would hold up the connection, and behind a request that was sent again by another connection it
 * would count something else.
 */
import type { RedisClient, RedisFamily } from '../../clients/redis.ts'
import { pipelineOf, type RedisPipeline } from '../../clients/redis-pipeline.ts'
import type { Backend, Grant } from '../../core/backend.ts'
import {
  BackendUnavailableError,
  InvalidArgumentError,
  OutcomeUnknownError,
} from '../../core/errors.ts'
import { ownerMark } from '../../wire/value.ts'
import type { RedisSettings, ReplicasSettings } from './options.ts'
import { OWNS } from './scripts/owns.ts'

/**
 * Gives `backend` confirmations, in place, where its option `replicas` wants them.
 *
 * @throws InvalidArgumentError when the client cannot send two commands as one piece.
 */
export function confirmed(
  backend: Backend,
  client: RedisClient,
  family: RedisFamily,
  { replicas, keyPrefix }: RedisSettings,
): void {
  if (replicas === null) return
  const pipeline = pipelineOf(client, family)
  if (pipeline === null) {
    const allowed = 'not given for a client without pipelines'
    throw new InvalidArgumentError('replicas', replicas, allowed)
  }
  const confirmations = new Confirmations(backend, pipeline, keyPrefix, replicas)
  confirmByReplicas(backend, confirmations, replicas.count)
}

/** Whose lock is asked about. */
type Held = Pick<Grant, 'lockName' | 'owner'>

class Confirmations {
  readonly #backend: Backend
  readonly #pipeline: RedisPipeline
  readonly #keyPrefix: string
  readonly #settings: ReplicasSettings

  constructor(
    backend: Backend,
    pipeline: RedisPipeline,
    keyPrefix: string,
    settings: ReplicasSettings,
  ) {
    this.#backend = backend
    this.#pipeline = pipeline
    this.#keyPrefix = keyPrefix
    this.#settings = settings
  }

  async of({ lockName, owner }: Held): Promise<number> {
    const { count, timeoutMs } = this.#settings
    const [keys, args] = [[this.#keyPrefix + lockName], [ownerMark(owner)]]
    const [owns, confirmed] = await this.#pipeline.runAndWait(OWNS, keys, args, count, timeoutMs)
    return Number(owns) === 1 ? confirmed : 0
  }

  words(confirmed: number): string {
    const { count, timeoutMs } = this.#settings
    return `${confirmed} of ${count} replicas confirmed within ${timeoutMs} ms`
  }

  /** @returns Why the grant does not count; it is given back then. Null when it counts. */
  async refusal(held: Held): Promise<BackendUnavailableError | null> {
    let why: BackendUnavailableError
    try {
      const confirmed = await this.of(held)
      if (confirmed >= this.#settings.count) return null
      const words = `${this.words(confirmed)}; the lock was given back`
      why = new BackendUnavailableError('no-quorum', words)
    } catch (error) {
      if (!(error instanceof BackendUnavailableError)) throw error
      why = error
    }
    await this.#cancel(held)
    return why
  }

  async #cancel({ lockName, owner }: Held): Promise<void> {
    try {
      await this.#backend.cancel(lockName, owner)
    } catch (error) {
      throw new OutcomeUnknownError('a lock that was not confirmed is there', { cause: error })
    }
  }
}

function confirmByReplicas(backend: Backend, confirmations: Confirmations, count: number): void {
  const tryAcquire = backend.tryAcquire.bind(backend)
  const handOver = backend.handOver?.bind(backend)
  const renew = backend.renew.bind(backend)
  const revoke = backend.revoke.bind(backend)

  backend.tryAcquire = async (request) => {
    const result = await tryAcquire(request)
    if (result.kind !== 'granted') return result
    const why = await confirmations.refusal(request)
    if (why === null) return result
    throw why
  }
  backend.renew = async (grant, ttlMs) => {
    const result = await renew(grant, ttlMs)
    if (result.kind !== 'renewed') return result
    // Whatever goes wrong now, the entry has its new time already.
    const confirmed = await confirmations.of(grant).catch((cause) => {
      throw new OutcomeUnknownError('no replica was heard of the renewal', { cause })
    })
    if (confirmed >= count) return result
    throw new OutcomeUnknownError(
      `only ${confirmations.words(confirmed)} that they have the renewal`,
    )
  }
  backend.revoke = async (request, seen) => {
    const grant = await revoke(request, seen)
    if (grant === null) return null
    const cause = await confirmations.refusal(grant)
    if (cause === null) return grant
    // A replica that is promoted now still names the holder.
    throw new OutcomeUnknownError('the lock was revoked, but not for replicas', { cause })
  }
  if (handOver === undefined) return
  backend.handOver = async (grant, next, evenIfWanted) => {
    const result = await handOver(grant, next, evenIfWanted)
    if (result.kind !== 'handed-over') return result
    return (await confirmations.refusal(next)) === null ? result : { kind: 'freed' }
  }
}
