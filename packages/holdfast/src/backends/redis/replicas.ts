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

  /** @throws OutcomeUnknownError, whatever went wrong: something was applied before. */
  const confirmedCount = async (grant: Pick<Grant, 'lockName' | 'owner'>): Promise<number> => {
    const keys = [keyPrefix + grant.lockName]
    try {
      const args = [ownerMark(grant.owner)]
      const [owns, confirmed] = await pipeline.runAndWait(OWNS, keys, args, count, timeoutMs)
      return Number(owns) === 1 ? confirmed : 0
    } catch (error) {
      throw new OutcomeUnknownError('no replica was heard of', { cause: error })
    }
  }
  const cancel = async (lockName: string, owner: string): Promise<void> => {
    try {
      await backend.cancel(lockName, owner)
    } catch (error) {
      throw new OutcomeUnknownError('too few replicas confirmed the lock', { cause: error })
    }
  }
  const words = (confirmed: number): string =>
    `${confirmed} of ${count} replicas confirmed within ${timeoutMs} ms`

  backend.tryAcquire = async (request) => {
    const result = await tryAcquire(request)
    if (result.kind !== 'granted') return result
    const confirmed = await confirmedCount(request)
    if (confirmed >= count) return result
    await cancel(request.lockName, request.owner)
    throw new BackendUnavailableError('no-quorum', `${words(confirmed)}; the lock was given back`)
  }
  backend.renew = async (grant, ttlMs) => {
    const result = await renew(grant, ttlMs)
    if (result.kind !== 'renewed') return result
    const confirmed = await confirmedCount(grant)
    if (confirmed >= count) return result
    throw new OutcomeUnknownError(`only ${words(confirmed)} that they have the renewal`)
  }
  if (handOver === undefined) return
  backend.handOver = async (grant, next, evenIfWanted) => {
    const result = await handOver(grant, next, evenIfWanted)
    if (result.kind !== 'handed-over') return result
    if ((await confirmedCount(next)) >= count) return result
    await cancel(next.lockName, next.owner)
    return { kind: 'freed' }
  }
}
