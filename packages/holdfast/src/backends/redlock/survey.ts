import type { NodeRequest } from './node-request.ts'
import { type NodeState, Round } from './round.ts'
import type { Voters } from './voters.ts'

/** A question of which only the count of the answers matters. */
export interface Poll {
  /** Null: this node is not asked. */
  request(node: number, asker: Survey): NodeRequest | null
  read(node: number, reply: unknown, survey: Survey): NodeState
  /** The request ended without an answer, or was not sent. */
  failed?(node: number): void
  isDecided(survey: Survey): boolean
}

/** Settles, by itself, when it is decided or nobody is waited for any more. */
export class Survey extends Round<Survey> {
  readonly #poll: Poll

  constructor(voters: Voters, poll: Poll) {
    super(voters)
    this.#poll = poll
    this.start()
  }

  protected requestFor(node: number): NodeRequest | null {
    return this.#poll.request(node, this)
  }

  protected take(node: number, reply: unknown): NodeState {
    return this.#poll.read(node, reply, this)
  }

  protected override onFailed(node: number): void {
    this.#poll.failed?.(node)
  }

  /** Says why an answer counts as a failure. */
  override blame(node: number, cause: unknown): void {
    super.blame(node, cause)
  }

  protected judge(): void {
    if (this.#poll.isDecided(this) || this.count('pending') === 0) this.resolve(this)
  }
}
