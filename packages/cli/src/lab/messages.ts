/** What the lab and its workers say to each other over the pipe between them. */
import type { DrawId, Entry } from './history.ts'
import type { Addresses } from './scenario.ts'

/** A process that ends with the others when the lab is gone; see servers/process-identity.ts. */
export interface Sibling {
  readonly pid: number
  readonly startTicks: string
}

export type ToWorker =
  | {
      readonly type: 'set-up'
      /** URL of the module that exports `scenario`. */
      readonly module: string
      readonly role: string
      readonly pauseKind: string
      readonly addresses: Addresses
    }
  | { readonly type: 'siblings'; readonly siblings: readonly Sibling[] }
  | {
      readonly type: 'round'
      readonly id: DrawId
      readonly place: string
      readonly jitterMs: number
    }
  | { readonly type: 'mark'; readonly mark: string }
  | { readonly type: 'end' }

export type FromWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'entry'; readonly entry: Entry }
  | { readonly type: 'mark'; readonly mark: string }
  | { readonly type: 'done' }
  | { readonly type: 'failed'; readonly error: string }
