/**
 * One attempt for one owner on all nodes: a grant once a quorum records exactly one token.
 *
 * Guarantees:
 * V1. Exact match. A token is granted when a quorum of nodes have each answered this owner that it owns
 *     the name there and that exactly this token is recorded. "Still the owner" is not enough.
 * V2. Where a quorum owns but does not agree, the recorded tokens are raised to the largest, at most
 *     twice; the answer is what is recorded then, and an answer that it is not ours any more counts.
 * V3. The grant lasts for the quorum-th largest life among the nodes that confirmed the token.
 * V4. A failed attempt is taken back on every node where it may be: released where it was granted,
 *     cancelled with a tombstone where there is no answer in time. While an answer is expected nothing
 *     is sent: most say that the name is held, and tombstones cost memory.
 * V5. Nodes that may have forgotten locks are asked once more if they are let vote at once, as part of
 *     the same attempt. An owner that was taken back anywhere asks for nothing again: what takes it back
 *     may arrive late, and would take the next grant.
 */
import type { RedisScript } from '../../clients/redis.ts'
import { called } from '../../clients/redis-errors.ts'
import { assert } from '../../core/assert.ts'
import type { AcquireResult, Grant, HolderInfo } from '../../core/backend.ts'
import { BackendUnavailableError, type LockError, type Vote } from '../../core/errors.ts'
import { parseToken } from '../../core/token.ts'
import { failureOf, textsOf, tokenOf } from '../../wire/replies.ts'
import { holderOf, ownerMark, padToken } from '../../wire/value.ts'
import type { Held, Share } from './held.ts'
import { type Asker, NodeRequest } from './node-request.ts'
import { type NodeState, Round } from './round.ts'
import { RAISE_RECORDED } from './scripts/raise.ts'
import { causeOf, refusalIn } from './verdict.ts'
import { noQuorum, timeoutOf, type Voters } from './voters.ts'

const RAISES_MAX = 2
/** After a split vote: whoever asks again at once meets the same rivals. */
const SPLIT_RETRY_MS = 10

const REFUSED: AcquireResult = { kind: 'held', retryAfterMs: null, holder: null }

/** What is asked of every node: an acquire, or a revoke. */
export type Question = Readonly<{ script: RedisScript; keys: string[]; args: string[] }>

/** What becomes of an attempt beyond its answer. */
export interface AttemptEnds {
  /** Nothing was granted: whatever may be left is to be taken back. */
  giveUp(held: Held): void
  /**
   * Too few nodes voted. Whether those that may have forgotten locks should be asked once more; null:
   * the error stands. Never rejects.
   */
  mayVoteNow(error: LockError): Promise<boolean> | null
  /** A grant that came after it was given up. */
  undoLate(held: Held, node: number): void
  /** A node told how it sees the key of the lock. */
  learn(node: number, lockName: string, sent: string): void
}

interface Rival {
  readonly leftMs: number
  readonly holder: HolderInfo | null
  readonly token: bigint | null
}

export class Attempt extends Round<AcquireResult> {
  readonly #held: Held
  readonly #question: Question
  readonly #source: string
  readonly #ends: AttemptEnds
  readonly #timeoutMs: number
  readonly #rivals: (Rival | null)[] = []
  /** Nodes that said so of themselves. */
  readonly #forgetful: number[] = []
  #raises = 0
  #raisesOut = 0
  /** V5. */
  #hasAskedAgain = false
  #isWaiting = false

  constructor(voters: Voters, held: Held, question: Question, source: string, ends: AttemptEnds) {
    super(voters)
    this.#held = held
    this.#question = question
    this.#source = source
    this.#ends = ends
    this.#timeoutMs = timeoutOf(voters, held.request.ttlMs)
    this.start()
  }

  protected requestFor(node: number): NodeRequest | null {
    const refusal = this.voters.refusalOf(node)
    if (refusal !== null) {
      this.states[node] = 'failed'
      this.blame(node, refusal)
      return null
    }
    return this.#request(node)
  }

  #request(node: number): NodeRequest {
    const { script, keys, args } = this.#question
    const share = this.#share(node)
    share.unanswered += 1
    share.isAwaited = true
    return new NodeRequest(script, keys, args, this, node, this.#timeoutMs)
  }

  protected take(node: number, reply: unknown, request: NodeRequest): NodeState {
    const share = this.#share(node)
    share.unanswered -= 1
    share.isAwaited = false
    if (!Array.isArray(reply)) {
      return this.#own(node, tokenOf(reply), request, this.#held.request.ttlMs)
    }
    const texts = textsOf(reply)
    const [kind = '', first = '', second = '', third = ''] = texts
    if (kind === 'again' || kind === 'revoked') {
      const lifeMs = Math.min(this.#held.request.ttlMs, Number(second) - Number(third))
      return this.#own(node, parseToken(first), request, Math.max(1, lifeMs))
    }
    if (kind === 'held') return this.#lost(node, texts)
    if (kind === 'cancelled' || kind === 'gone' || kind === 'repaired') return 'no'
    const refusal = refusalIn(texts)
    const port = this.voters.ports[node]
    assert(port !== undefined, 'an answer comes from a node')
    if (refusal !== null) {
      // Of an attempt there was nothing that could end.
      if (this.#held.phase !== 'asking') share.ends(this.voters.seams().nowMs(), 'expired')
      if (refusal.kind === 'amnesia') this.#forgetful.push(node)
      this.voters.admission.onRefusal(port, refusal)
      this.blame(node, causeOf(refusal, port.name))
    } else this.blame(node, failureOf([kind, first, second]))
    return 'failed'
  }

  /** The node says that the name is ours there. */
  #own(node: number, token: bigint | null, request: NodeRequest, lifeMs: number): NodeState {
    assert(token !== null, 'a grant comes with a token')
    const share = this.#share(node)
    share.tells(token, this.voters.seams().nowMs())
    share.lives(request.sentAtMs, request.sentAtMs + lifeMs)
    if (this.#held.phase === 'over') {
      // A release that was sent behind the acquire says itself whether it found it.
      if (share.isEnding) share.wasLate = true
      else if (!share.isReleased) this.#ends.undoLate(this.#held, node)
    }
    return 'yes'
  }

  #lost(
    node: number,
    [, left = '', metadata = '', key = '', token = '']: readonly string[],
  ): NodeState {
    this.#ends.learn(node, this.#held.request.lockName, key)
    const holder = holderOf(metadata)
    this.#rivals[node] = { leftMs: Number(left), holder, token: holder && parseToken(token) }
    return 'no'
  }

  protected override onFailed(node: number, error: unknown): void {
    const share = this.#share(node)
    share.isAwaited = false
    if (error instanceof BackendUnavailableError) share.unanswered -= 1
    // It may still arrive.
    else if (this.#held.phase === 'over') this.#ends.undoLate(this.#held, node)
  }

  protected override onSilent(node: number): void {
    this.#share(node).isAwaited = false
    if (this.#held.phase === 'over') this.#ends.undoLate(this.#held, node)
  }

  protected judge(): void {
    const { quorum } = this.voters
    if (this.#held.phase === 'over') return this.resolve(REFUSED)
    const [token, agreeing] = this.#leading()
    if (token !== null && agreeing >= quorum) return this.#grant(token)
    const pending = this.count('pending')
    const owned = this.#ownedCount()
    if (owned + pending < quorum) {
      if (this.#raisesOut === 0 && !this.#isWaiting) this.#fail()
      return
    }
    if (this.#raisesOut > 0 || agreeing + pending >= quorum) return
    if (this.#raises >= RAISES_MAX) return this.#fail()
    this.#raise(this.#held.highest())
  }

  /** The token that most nodes record, and how many. */
  #leading(): readonly [token: bigint | null, count: number] {
    const { shares } = this.#held
    let leading: bigint | null = null
    let most = 0
    for (const { token, untilMs } of shares) {
      if (token === null || token === leading || untilMs === Number.NEGATIVE_INFINITY) continue
      let count = 0
      for (const other of shares) {
        if (other.token === token && other.untilMs !== Number.NEGATIVE_INFINITY) count += 1
      }
      if (count > most) {
        leading = token
        most = count
      }
    }
    return [leading, most]
  }

  #ownedCount(): number {
    let count = 0
    for (const { token, untilMs } of this.#held.shares) {
      if (token !== null && untilMs !== Number.NEGATIVE_INFINITY) count += 1
    }
    return count
  }

  /** V3. */
  #grant(token: bigint): void {
    const held = this.#held
    const { lockName, owner, ttlMs } = held.request
    const { sentAtMs } = held
    const untilMs = held.untilMs(this.voters.quorum, token)
    held.phase = 'held'
    held.token = token
    const lifeMs = Math.min(ttlMs, untilMs - sentAtMs)
    const source = this.#source
    const grant: Grant = { lockName, owner, fencingToken: token, source, ttlMs: lifeMs, sentAtMs }
    this.resolve({ kind: 'granted', grant })
  }

  /** V2. */
  #raise(token: bigint): void {
    this.#raises += 1
    const { keys, owner, shares } = this.#held
    const { setId, runId } = this.voters.admission.expected()
    const [, , , marker = ''] = this.#question.keys
    const args = [ownerMark(owner), padToken(token), setId, runId]
    const asker = this.#raiser()
    for (const [node, share] of shares.entries()) {
      if (share.token === null || share.token >= token) continue
      const request = new NodeRequest(
        RAISE_RECORDED,
        [keys.lock, keys.counter, marker],
        args,
        asker,
        node,
        this.#timeoutMs,
      )
      if (this.voters.ports[node]?.send(request)) this.#raisesOut += 1
    }
    if (this.#raisesOut === 0) this.#fail()
  }

  #raiser(): Asker {
    const open = new Set<NodeRequest>()
    const over = (request: NodeRequest): void => {
      if (open.has(request)) return
      open.add(request)
      this.#raisesOut -= 1
      if (!this.isSettled) this.judge()
    }
    return {
      answered: (request, reply) => {
        try {
          this.#takeRaise(request, textsOf(reply))
          over(request)
        } catch (error) {
          this.reject(error)
        }
      },
      failed: over,
      silent: over,
    }
  }

  #takeRaise({ node, sentAtMs }: NodeRequest, texts: readonly string[]): void {
    const share = this.#share(node)
    if (sentAtMs <= share.barrierMs) return
    const [kind, token = ''] = texts
    if (kind === 'ok') {
      share.token = parseToken(token)
      return
    }
    const refusal = refusalIn(texts)
    const port = this.voters.ports[node]
    if (refusal !== null && port !== undefined) this.voters.admission.onRefusal(port, refusal)
    if (refusal === null) share.token = null
    share.ends(this.voters.seams().nowMs(), 'expired')
  }

  /** V4. */
  #fail(): void {
    const isVoted = this.count('yes') + this.count('no') >= this.voters.quorum
    const votes = this.votes()
    if (isVoted) {
      this.#giveUp()
      return this.resolve(this.#refusal(votes))
    }
    const error = noQuorum(this.voters, called(this.#question.script.name), votes, false)
    const mayVoteNow = this.#hasAskedAgain ? null : this.#ends.mayVoteNow(error)
    if (mayVoteNow !== null) {
      this.#hasAskedAgain = true
      this.#isWaiting = true
      mayVoteNow.then((mayAsk) => this.#askAgain(mayAsk)).catch((error) => this.reject(error))
      return
    }
    this.#giveUp()
    this.reject(error)
  }

  /** V5. */
  #askAgain(mayAsk: boolean): void {
    this.#isWaiting = false
    if (this.isSettled) return
    if (mayAsk && this.#held.phase === 'asking') {
      for (const node of this.#forgetful) this.askAgain(node, this.#request(node))
    }
    this.judgeNow()
  }

  #giveUp(): void {
    for (const [node, request] of this.requests.entries()) {
      if (request === null || !Number.isNaN(request.sentAtMs) || request.isDropped) continue
      if (this.states[node] !== 'pending') continue
      request.isDropped = true
      const share = this.#share(node)
      share.isAwaited = false
      share.unanswered -= 1
    }
    this.#ends.giveUp(this.#held)
  }

  /** When a quorum can be free: never at once, or rivals who split the votes would do so again. */
  #refusal(votes: readonly Vote[]): AcquireResult {
    const frees = this.states.map((state, node) => {
      if (state === 'yes') return 0
      return state === 'no' ? (this.#rivals[node]?.leftMs ?? 0) : Number.POSITIVE_INFINITY
    })
    const freeMs = frees.sort((a, b) => a - b)[this.voters.quorum - 1] ?? Number.POSITIVE_INFINITY
    let rival: Rival | null = null
    for (const one of this.#rivals) {
      if (one && (rival === null || (one.token ?? 0n) > (rival.token ?? 0n))) rival = one
    }
    return {
      kind: 'held',
      retryAfterMs: Number.isFinite(freeMs) ? Math.max(freeMs, SPLIT_RETRY_MS) : null,
      holder: rival?.holder ?? null,
      fencingToken: rival?.token ?? null,
      votes,
    }
  }

  #share(node: number): Share {
    const share = this.#held.shares[node]
    assert(share !== undefined, 'there is a share for each node')
    return share
  }
}
