/**
 * The seam between those who ask nodes for votes and whoever sees to it that nodes may vote
 * (admission.ts). Rounds report every refusal to vote here and go on without that node.
 */
import type { RedisScript } from '../../clients/redis.ts'
import type { LockError, Vote } from '../../core/errors.ts'

/** Why a node gives no vote, as the voting scripts answer it. */
export type Refusal =
  /** It may have forgotten locks. `marker`: its text, or '' where none stands. */
  | Readonly<{ kind: 'amnesia'; why: string; marker: string }>
  /** Its marker names another set of nodes, or a later set than ours. */
  | Readonly<{ kind: 'wrong-set'; marker: string }>
  /** The prefix was first used with a shorter `maxTtlMs`. */
  | Readonly<{ kind: 'too-long'; maxTtlMs: number }>

/** One node, for questions that are not votes. */
export interface NodeAsker {
  readonly name: string
  /** Declared by the user: it keeps every write before it answers. */
  readonly isDurable: boolean
  /**
   * @param timeoutMs After this it rejects with OutcomeUnknownError; the answer is then ignored.
   * @throws BackendUnavailableError at once, with `backlog`, while too many requests are unanswered.
   */
  ask<T>(
    script: RedisScript,
    keys: string[],
    args: string[],
    read: (reply: unknown) => T,
    timeoutMs: number,
  ): Promise<T>
}

/** Arguments of every voting script. `runId`: '' where the script has to read it itself. */
export type Expected = Readonly<{ setId: string; runId: string }>

export interface AdmissionPort {
  expected(): Expected
  /** Works in the background, bounded, and never throws. May be called for each request. */
  onRefusal(node: NodeAsker, refusal: Refusal): void
  /**
   * Why fewer than a quorum of nodes vote, in the words of what can be done about it and how long it
   * takes; null: nothing is known beyond the votes.
   */
  explain(votes: readonly Vote[]): LockError | null
  /** Ends the work in the background. */
  close(): void
}
