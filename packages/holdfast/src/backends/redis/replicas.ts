/**
 * Grants and renewals that count only once enough replicas have them (WAIT).
 *
 * Guarantee: a grant is returned, and a renewal moves the deadline, only after `count` replicas have
 * confirmed that they have the lock, in one piece with a look that it is still there. An unconfirmed
 * grant is cancelled before the caller is told.
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
import type { RedisSettings, ReplicasSettings } from './options.ts'
import { OWNS } from './scripts/owns.ts'
import { ownerMark } from './value.ts'

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
  confirmByReplicas(backend, pipeline, keyPrefix, replicas)
}

function confirmByReplicas(
  backend: Backend,
  pipeline: RedisPipeline,
  keyPrefix: string,
  { count, timeoutMs }: ReplicasSettings,
): void {
  const tryAcquire = backend.tryAcquire.bind(backend)
  const handOver = backend.handOver?.bind(backend)
  const renew = backend.renew.bind(backend)

  const confirmedCount = async (grant: Pick<Grant, 'lockName' | 'owner'>): Promise<number> => {
    const keys = [keyPrefix + grant.lockName]
    const args = [ownerMark(grant.owner)]
    const [owns, confirmed] = await pipeline.runAndWait(OWNS, keys, args, count, timeoutMs)
    return Number(owns) === 1 ? confirmed : 0
  }
  const words = (confirmed: number): string =>
    `${confirmed} of ${count} replicas confirmed within ${timeoutMs} ms`
  const cancel = async (lockName: string, owner: string): Promise<void> => {
    try {
      await backend.cancel(lockName, owner)
    } catch (error) {
      throw new OutcomeUnknownError('a lock that was not confirmed is there', { cause: error })
    }
  }
  /** @returns Why the grant does not count; it is given back then. Null when it counts. */
  const refusal = async (
    grant: Pick<Grant, 'lockName' | 'owner'>,
  ): Promise<BackendUnavailableError | null> => {
    let why: BackendUnavailableError
    try {
      const confirmed = await confirmedCount(grant)
      if (confirmed >= count) return null
      why = new BackendUnavailableError('no-quorum', `${words(confirmed)}; the lock was given back`)
    } catch (error) {
      if (!(error instanceof BackendUnavailableError)) throw error
      why = error
    }
    await cancel(grant.lockName, grant.owner)
    return why
  }

  backend.tryAcquire = async (request) => {
    const result = await tryAcquire(request)
    if (result.kind !== 'granted') return result
    const why = await refusal(request)
    if (why === null) return result
    throw why
  }
  backend.renew = async (grant, ttlMs) => {
    const result = await renew(grant, ttlMs)
    if (result.kind !== 'renewed') return result
    // Whatever goes wrong now, the entry has its new time already.
    const confirmed = await confirmedCount(grant).catch((cause) => {
      throw new OutcomeUnknownError('no replica was heard of the renewal', { cause })
    })
    if (confirmed >= count) return result
    throw new OutcomeUnknownError(`only ${words(confirmed)} that they have the renewal`)
  }
  if (handOver === undefined) return
  backend.handOver = async (grant, next, evenIfWanted) => {
    const result = await handOver(grant, next, evenIfWanted)
    if (result.kind !== 'handed-over') return result
    return (await refusal(next)) === null ? result : { kind: 'freed' }
  }
}
