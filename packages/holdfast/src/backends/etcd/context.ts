/** What the parts of one backend share. */
import type { EtcdClient } from '../../clients/etcd/client.ts'
import type { Seams } from '../../core/seams.ts'
import type { Base } from './base.ts'
import type { Entries } from './entries.ts'
import type { Keys } from './keys.ts'
import type { Sessions } from './sessions.ts'

export interface Context {
  /** Read anew each time: the engine may hand over other ones. */
  seams(): Seams
  readonly client: EtcdClient
  readonly keys: Keys
  readonly base: Base
  readonly sessions: Sessions
  readonly entries: Entries
  /** Of a grant: the store, once it is known. */
  source(): string
  /** Runs what nobody waits for; its failure is nobody's either. */
  background(work: () => Promise<unknown>): void
}
