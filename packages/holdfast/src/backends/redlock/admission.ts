/**
 * Sees to it that nodes may vote: runs the table (admission-table.ts) when a node refused to vote, and
 * again when a wait is over, while those that vote go on voting.
 *
 * Bounded: one pass at a time, at most one a second but for those at the end of a wait. Its timers do
 * not keep a process alive, and end with `close()`.
 */
import type { CancelTimer } from '../../core/clock.ts'
import { BackendUnavailableError, type LockError, type Vote } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import type { AdmissionPort, Expected, NodeAsker, Refusal } from './admission-port.ts'
import { type AdmissionRules, AdmissionTable, type Outlook } from './admission-table.ts'
import { whyTooFew } from './admission-words.ts'
import { parseMarker, quorumOf } from './marker.ts'

/** Between two passes that find nothing new: nodes that are away come back in their own time. */
const GAP_MS_MIN = 1000
const GAP_MS_MAX = 5000

export class Admission implements AdmissionPort {
  readonly #seams: () => Seams
  readonly #rules: AdmissionRules
  readonly #expected: Expected
  readonly #table: AdmissionTable
  readonly #quorum: number
  #outlook: Outlook | null = null
  #running: Promise<void> | null = null
  /** Reported while a pass was running, which may have looked at the node before. */
  #isReported = false
  #endedAtMs = Number.NEGATIVE_INFINITY
  #armed: Readonly<{ atMs: number; cancel: CancelTimer }> | null = null
  #isClosed = false

  constructor(seams: () => Seams, nodes: readonly NodeAsker[], rules: AdmissionRules) {
    this.#seams = seams
    this.#rules = rules
    this.#expected = { setId: rules.setId, runId: '' }
    this.#table = new AdmissionTable(seams, nodes, rules)
    this.#quorum = quorumOf(nodes.length)
  }

  expected(): Expected {
    return this.#expected
  }

  onRefusal(node: NodeAsker, refusal: Refusal): void {
    if (this.#isClosed || refusal.kind === 'too-long') return
    if (refusal.kind === 'amnesia') {
      if (refusal.why === 'no-counter') this.#table.suspect(node)
      const inc = parseMarker(refusal.marker)?.inc
      const isExpected = refusal.why === 'waiting' && inc !== undefined
      const isUnderWay = this.#armed !== null || this.#running !== null
      if (isExpected && isUnderWay && this.#table.isNoted(node, inc)) return
    }
    if (this.#running === null) this.#wakeWithin(this.#gapRestMs())
    else this.#isReported = true
  }

  explain(votes: readonly Vote[]): LockError | null {
    const outlook = this.#outlook
    if (outlook === null) {
      if (this.#running === null) return null
      const words = 'nodes that may have forgotten locks do not vote; it is being looked at them'
      return new BackendUnavailableError('no-quorum', words, { votes })
    }
    if (outlook.votingCount >= this.#quorum) return null
    const passedMs = this.#seams().nowMs() - this.#endedAtMs
    return whyTooFew(outlook, passedMs, this.#rules, votes)
  }

  /** Resolves when a pass that runs now, or is due at once, has ended. Never rejects. */
  async settled(): Promise<void> {
    if (this.#running === null && this.#armed !== null && this.#gapRestMs() === 0) this.#run()
    await this.#running
  }

  close(): void {
    this.#isClosed = true
    this.#disarm()
  }

  #gapRestMs(): number {
    return Math.max(0, this.#endedAtMs + GAP_MS_MIN - this.#seams().nowMs())
  }

  #wakeWithin(delayMs: number): void {
    if (this.#isClosed) return
    const seams = this.#seams()
    const atMs = seams.nowMs() + delayMs
    if (this.#armed !== null && this.#armed.atMs <= atMs) return
    this.#disarm()
    this.#armed = { atMs, cancel: seams.after(delayMs, () => this.#run()) }
  }

  #disarm(): void {
    this.#armed?.cancel()
    this.#armed = null
  }

  #run(): void {
    this.#disarm()
    if (this.#isClosed || this.#running !== null) return
    this.#isReported = false
    const pass = this.#table.pass().then(
      (outlook) => this.#ended(outlook),
      // A bug of ours; it must not end the process, and the next report tries again.
      () => this.#ended(null),
    )
    this.#running = pass
  }

  #ended(outlook: Outlook | null): void {
    const seams = this.#seams()
    this.#running = null
    this.#outlook = outlook
    this.#endedAtMs = seams.nowMs()
    if (this.#isReported) this.#wakeWithin(GAP_MS_MIN)
    const nextMs = outlook?.nextMs ?? null
    if (nextMs === null) return
    const gapMs = GAP_MS_MIN + (GAP_MS_MAX - GAP_MS_MIN) * seams.jitter()
    this.#wakeWithin(nextMs === 0 ? gapMs : nextMs)
  }
}
