/**
 * One renewal of a lease on all nodes, and the repair of nodes that lost its entry.
 *
 * Guarantees:
 * E1. A node that answers "not yours", or that it may have forgotten locks, counts for nothing from
 *     then on; only the answer to a request that was sent after that answer came counts again.
 * E2. The lease lasts until the quorum-th largest life. More than a minority that does not count: lost.
 * E3. Renewal never creates an entry. A repair does, on a node where nothing stands, only once a quorum
 *     of other nodes has confirmed the lease in this round, and only while it is held.
 */
import { assert } from '../../core/assert.ts'
import type { RenewResult } from '../../core/backend.ts'
import { BackendUnavailableError, type LossReason } from '../../core/errors.ts'
import { textsOf } from '../../wire/replies.ts'
import { ownerMark, padToken } from '../../wire/value.ts'
import type { Held, Share } from './held.ts'
import { type Asker, NodeRequest } from './node-request.ts'
import { type NodeState, Round } from './round.ts'
import { EXTEND } from './scripts/extend.ts'
import { REPAIR } from './scripts/repair.ts'
import { causeOf, refusalIn } from './verdict.ts'
import { noQuorum, timeoutOf, type Voters } from './voters.ts'

/** The engine gives a renewal up after a tenth of the TTL: the nodes' answers come with ours. */
const TIMEOUT_SHARE = 0.8

export interface RenewalEnds {
  /** The lease is over, against the will of its holder. */
  lost(held: Held): void
  /** A repair that came after the lease was over. */
  undoLate(held: Held, node: number): void
}

export class Renewal extends Round<RenewResult> {
  readonly #held: Held
  readonly #marker: string
  readonly #ttlMs: number
  /** Before anything was sent. */
  readonly #sentAtMs: number
  readonly #untilBeforeMs: number
  readonly #timeoutMs: number
  readonly #ends: RenewalEnds
  readonly #args: string[]
  /** Nodes on which nothing stands, until a repair was sent. */
  readonly #missing = new Set<number>()

  constructor(voters: Voters, held: Held, marker: string, ttlMs: number, ends: RenewalEnds) {
    super(voters)
    const { setId, runId } = voters.admission.expected()
    this.#held = held
    this.#marker = marker
    this.#ttlMs = ttlMs
    this.#ends = ends
    this.#sentAtMs = voters.seams().nowMs()
    this.#untilBeforeMs = held.untilMs(voters.quorum)
    this.#timeoutMs = TIMEOUT_SHARE * timeoutOf(voters, ttlMs)
    this.#args = [ownerMark(held.owner), String(ttlMs), setId, runId, padToken(held.token)]
    this.start()
  }

  protected requestFor(node: number): NodeRequest {
    const keys = [this.#held.keys.lock, this.#marker]
    return new NodeRequest(EXTEND, keys, this.#args, this, node, this.#timeoutMs)
  }

  protected take(node: number, reply: unknown, { sentAtMs }: NodeRequest): NodeState {
    const share = this.#share(node)
    const texts = textsOf(reply)
    const [kind = ''] = texts
    if (kind === 'ok') {
      // E1. What was sent before the node said otherwise is an old answer.
      if (sentAtMs <= share.barrierMs) return 'no'
      if (share.token === null) share.tells(this.#held.token, this.voters.seams().nowMs())
      share.lives(sentAtMs, sentAtMs + this.#ttlMs)
      return 'yes'
    }
    const refusal = refusalIn(texts)
    if (refusal === null) return this.#notOurs(node, kind, sentAtMs)
    const port = this.voters.ports[node]
    assert(port !== undefined, 'an answer comes from a node')
    if (refusal.kind !== 'too-long') this.#ended(share, 'expired')
    this.voters.admission.onRefusal(port, refusal)
    this.blame(node, causeOf(refusal, port.name))
    return 'failed'
  }

  #notOurs(node: number, kind: string, sentAtMs: number): NodeState {
    const share = this.#share(node)
    const isFree = kind === 'free' || kind === 'resting'
    this.#ended(share, isFree ? 'expired' : kind === 'revoked' ? 'revoked' : 'superseded')
    share.isMissed(sentAtMs)
    if (kind === 'free') {
      this.#missing.add(node)
      if (this.isSettled) this.#repair()
    }
    return 'no'
  }

  #ended(share: Share, loss: LossReason): void {
    share.ends(this.voters.seams().nowMs(), loss)
    if (this.isSettled && this.#isLost()) this.#lose(true)
  }

  protected judge(): void {
    const { quorum } = this.voters
    if (this.#held.phase !== 'held') {
      return this.resolve({ kind: 'lost', reason: this.#held.lossReason() })
    }
    if (this.count('yes') >= quorum) {
      this.resolve(this.#renewed())
      return this.#repair()
    }
    if (this.#isLost()) return this.#lose(false)
    if (this.count('pending') > 0) return
    if (this.count('yes') + this.count('no') >= quorum) return this.resolve(this.#renewed())
    this.reject(noQuorum(this.voters, 'renewal', this.votes(), this.mayBeApplied()))
  }

  /** E2. A node that has not answered in this round may yet say that it has the entry. */
  #isLost(): boolean {
    const { ports, quorum } = this.voters
    let dead = 0
    for (const [node, { untilMs }] of this.#held.shares.entries()) {
      if (untilMs === Number.NEGATIVE_INFINITY && this.states[node] !== 'pending') dead += 1
    }
    return this.#held.phase === 'held' && dead > ports.length - quorum
  }

  /** @param isLate Whether the caller has had its answer. */
  #lose(isLate: boolean): void {
    const reason = this.#held.lossReason()
    this.#ends.lost(this.#held)
    if (isLate) this.#held.request.onLost(reason)
    else this.resolve({ kind: 'lost', reason })
  }

  /** Entries that live longer than was asked for, from before, keep the promise as well. */
  #renewed(): RenewResult {
    const ttlMs = this.#ttlMs
    const untilMs = this.#held.untilMs(this.voters.quorum)
    const isKept = untilMs > this.#untilBeforeMs || untilMs >= this.#sentAtMs + ttlMs
    const sentAtMs = Math.min(this.#sentAtMs, untilMs - ttlMs)
    return { kind: isKept ? 'renewed' : 'unchanged', sentAtMs, ttlMs }
  }

  /** E3. */
  #repair(): void {
    if (this.#held.phase !== 'held' || this.count('yes') < this.voters.quorum) return
    for (const node of this.#missing) {
      this.#missing.delete(node)
      this.#repairNode(node)
    }
  }

  #repairNode(node: number): void {
    const { owner, keys, metadata, token } = this.#held
    if (metadata === null) return
    const { setId, runId } = this.voters.admission.expected()
    const request = new NodeRequest(
      REPAIR,
      [keys.lock, keys.cancelStart + owner, keys.counter, this.#marker],
      [String(this.#ttlMs), setId, runId, padToken(token), metadata],
      this.#repairer(node),
      node,
      this.#timeoutMs,
    )
    const share = this.#share(node)
    share.unanswered += 1
    if (!this.voters.ports[node]?.send(request)) share.unanswered -= 1
  }

  #repairer(node: number): Asker {
    const share = this.#share(node)
    return {
      answered: ({ sentAtMs }, reply) => {
        share.unanswered -= 1
        const [kind = ''] = textsOf(reply)
        if (kind !== 'ok' && kind !== 'again') return
        share.tells(this.#held.token, this.voters.seams().nowMs())
        if (kind === 'ok') share.lives(sentAtMs, sentAtMs + this.#ttlMs)
        if (this.#held.phase === 'over') this.#ends.undoLate(this.#held, node)
      },
      failed: (_, error) => {
        if (error instanceof BackendUnavailableError) share.unanswered -= 1
      },
      silent: () => undefined,
    }
  }

  #share(node: number): Share {
    const share = this.#held.shares[node]
    assert(share !== undefined, 'there is a share for each node')
    return share
  }
}
