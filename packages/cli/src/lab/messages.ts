/** What the lab and its workers say to each other over the pipe between them. */
import type { DrawId, Entry } from './history.ts'
import type { Addresses } from './scenario.ts'

/** A process that ends with the others when the lab is gone; see servers/process-identity.ts. */
export interface Sibling {
  readonly pid: number
  readonly startTicks: string
}

/** To a worker of a scenario of rounds. */
export type ToRoundWorker =
  | {
      readonly type: 'round'
      readonly id: DrawId
      readonly place: string
      readonly jitterMs: number
    }
  | { readonly type: 'mark'; readonly mark: string }

/** To a worker of a trial. */
export type ToTrialWorker =
  | {
      readonly type: 'job'
      readonly id: DrawId
      /** A name in the scenario's `programs`. */
      readonly program: string
      readonly input: unknown
    }
  | { readonly type: 'mark'; readonly mark: string }

/** URL of the module that exports `scenario`, and who this worker is in it. */
interface WhoYouAre {
  readonly module: string
  readonly role: string
}

export type SetUpRounds = WhoYouAre & {
  readonly type: 'set-up-rounds'
  readonly pauseKind: string
  readonly addresses: Addresses
}

export type SetUpTrial = WhoYouAre & { readonly type: 'set-up-trial' }

export type ToWorker =
  | SetUpRounds
  | SetUpTrial
  | ToRoundWorker
  | ToTrialWorker
  | { readonly type: 'siblings'; readonly siblings: readonly Sibling[] }
  | { readonly type: 'end' }

export type FromWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'entries'; readonly entries: readonly Entry[] }
  | { readonly type: 'mark'; readonly mark: string }
  /** Its round, or its job, is over. */
  | { readonly type: 'done'; readonly result?: unknown }
  | { readonly type: 'failed'; readonly error: string }
