/**
 * How an owner ends on the nodes: released, cancelled, or taken back after it failed.
 *
 * Guarantee: on each node where something of the owner may be, it is removed, and where a request of
 * it had no answer a tombstone keeps that request from being granted later. A node that does not answer
 * is told once it does (node-port.ts); what cannot be told ends with its TTL.
 */
import type { Seams } from '../../core/seams.ts'
import type { Attempts } from '../../wire/attempts.ts'
import type { LockKeys } from '../../wire/keys.ts'
import { ownerMark } from '../../wire/value.ts'
import type { Held, Holdings } from './held.ts'
import { type Asker, NOBODY, NodeRequest } from './node-request.ts'
import { CANCEL } from './scripts/cancel.ts'
import { RELEASE, REST } from './scripts/release.ts'
import { type Poll, Survey } from './survey.ts'
import { noQuorum, timeoutOf, type Voters } from './voters.ts'

/** For an owner of whom this process knows no TTL: as for the default one. */
const TTL_MS_UNKNOWN = 30_000

type Ended = Readonly<{ owner: string; keys: LockKeys; ttlMs: number }>

export class Endings {
  readonly #voters: Voters
  readonly #attempts: Attempts
  readonly #holdings: Holdings
  readonly #seams: () => Seams

  constructor(voters: Voters, attempts: Attempts, holdings: Holdings) {
    this.#voters = voters
    this.#attempts = attempts
    this.#holdings = holdings
    this.#seams = () => voters.seams()
  }

  /** Nobody waits for it. */
  giveUp(held: Held): void {
    held.phase = 'over'
    this.#holdings.remove(held.owner)
    const ended = endedOf(held)
    let lifeMs: number | null = null
    for (const [node, share] of held.shares.entries()) {
      // The attempt hears of it.
      if (share.isAwaited) continue
      if (share.unanswered > 0) {
        lifeMs ??= this.#tombstoneMs(ended)
        this.#send(this.#cancelRequest(ended, node, lifeMs, held.highest(), NOBODY))
      } else if (share.token !== null) this.#send(this.#releaseRequest(ended, node, 0, NOBODY))
    }
  }

  /**
   * The holder may still be working, and what is left of its entries keeps others away meanwhile: it goes
   * when the holder says that it has stopped. Only what may yet be written is kept from coming.
   */
  lost(held: Held): void {
    held.phase = 'over'
    this.#holdings.remove(held.owner)
    for (const [node, share] of held.shares.entries()) {
      if (share.unanswered > 0 && !share.isAwaited) this.undoLate(held, node)
    }
  }

  /** What an owner that is over got late, or may yet get. */
  undoLate(held: Held, node: number): void {
    const ended = endedOf(held)
    if (held.shares[node]?.unanswered === 0) {
      return this.#send(this.#releaseRequest(ended, node, 0, NOBODY))
    }
    const lifeMs = this.#tombstoneMs(ended)
    this.#send(this.#cancelRequest(ended, node, lifeMs, held.highest(), NOBODY))
  }

  /** @throws BackendUnavailableError, or OutcomeUnknownError, when fewer than a quorum answered. */
  async release(
    held: Held | null,
    unknown: Ended,
    keepForMs: number,
  ): Promise<'released' | 'not-held'> {
    const { ports, quorum } = this.#voters
    if (held !== null) held.phase = 'over'
    const ended = held === null ? unknown : endedOf(held)
    // Of a try before this one.
    const before = held?.shares.filter(({ isReleased }) => isReleased).length ?? 0
    const released = (survey: Survey): number => survey.count('yes') + before
    const without = (survey: Survey): number =>
      survey.count('no') + survey.count('skipped') - before
    const survey = new Survey(this.#voters, {
      request: this.#releaseRequests(held, ended, keepForMs),
      read: (node, reply) => {
        const share = held?.shares[node]
        const isYes = Number(reply) === 1
        if (held === null || share === undefined) return isYes ? 'yes' : 'no'
        // Sent by another connection than the acquire, it may have come first.
        if (isYes) share.takenBack()
        else if (share.isEnding && share.wasLate) this.undoLate(held, node)
        share.isEnding = false
        return isYes ? 'yes' : 'no'
      },
      // It may be told later, and before the acquire arrives.
      failed: (node) => {
        const share = held?.shares[node]
        if (share !== undefined) share.isEnding = false
      },
      isDecided: (survey) => released(survey) >= quorum || without(survey) > ports.length - quorum,
    })
    await survey.result
    if (released(survey) >= quorum) return this.#released(held, 'released')
    if (without(survey) > ports.length - quorum) return this.#released(held, 'not-held')
    if (without(survey) + released(survey) >= quorum) return this.#released(held, 'released')
    throw noQuorum(this.#voters, 'release', survey.votes(), true)
  }

  #releaseRequests(held: Held | null, ended: Ended, keepForMs: number): Poll['request'] {
    let lifeMs: number | null = null
    return (node, asker) => {
      const share = held?.shares[node]
      if (share === undefined) return this.#releaseRequest(ended, node, keepForMs, asker)
      if (!share.mayHold) return null
      if (share.unanswered === 0 || share.isAwaited) {
        share.isEnding = true
        return this.#releaseRequest(ended, node, keepForMs, asker)
      }
      lifeMs ??= this.#tombstoneMs(ended)
      return this.#cancelRequest(ended, node, lifeMs, held?.highest() ?? 0n, asker)
    }
  }

  #released<T>(held: Held | null, result: T): T {
    if (held !== null) this.#holdings.remove(held.owner)
    return result
  }

  /** @throws BackendUnavailableError, or OutcomeUnknownError, when fewer than a quorum confirmed. */
  async cancel(held: Held | null, unknown: Ended): Promise<void> {
    const { quorum } = this.#voters
    if (held !== null) {
      held.phase = 'over'
      this.#holdings.remove(held.owner)
    }
    const ended = held === null ? unknown : endedOf(held)
    const lifeMs = this.#tombstoneMs(ended)
    const survey = new Survey(this.#voters, {
      request: (node, asker) =>
        this.#cancelRequest(ended, node, lifeMs, held?.highest() ?? 0n, asker),
      read: () => 'yes',
      isDecided: (survey) => survey.count('yes') >= quorum,
    })
    await survey.result
    if (survey.count('yes') < quorum) {
      throw noQuorum(this.#voters, 'cancel', survey.votes(), true)
    }
  }

  #tombstoneMs({ owner, ttlMs }: Ended): number {
    return this.#attempts.cancelled(owner, this.#seams().nowMs(), ttlMs)
  }

  #send(request: NodeRequest): void {
    this.#voters.ports[request.node]?.send(request)
  }

  #cancelRequest(
    { owner, keys, ttlMs }: Ended,
    node: number,
    lifeMs: number,
    seen: bigint,
    asker: Asker,
  ): NodeRequest {
    const { lock, want, cancelStart, counter } = keys
    return new NodeRequest(
      CANCEL,
      [lock, want, cancelStart + owner, counter],
      [ownerMark(owner), String(lifeMs), seen.toString()],
      asker,
      node,
      timeoutOf(this.#voters, ttlMs),
      `cancel ${owner}`,
    )
  }

  #releaseRequest(
    { owner, keys, ttlMs }: Ended,
    node: number,
    keepForMs: number,
    asker: Asker,
  ): NodeRequest {
    const { lock, want, cancelStart } = keys
    const rests = keepForMs > 0
    return new NodeRequest(
      rests ? REST : RELEASE,
      rests ? [lock, cancelStart + owner] : [lock, want],
      rests ? [ownerMark(owner), String(Math.ceil(keepForMs))] : [ownerMark(owner)],
      asker,
      node,
      timeoutOf(this.#voters, ttlMs),
      // A rest that is told late would begin late.
      rests ? null : `release ${owner}`,
    )
  }
}

function endedOf({ owner, keys, request }: Held): Ended {
  return { owner, keys, ttlMs: request.ttlMs }
}

/** Of an owner that this process does not know. */
export function unknownOwner(owner: string, keys: LockKeys, ttlMs: number = TTL_MS_UNKNOWN): Ended {
  return { owner, keys, ttlMs }
}
