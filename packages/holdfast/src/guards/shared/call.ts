/** One guarded call: what it presents, and how long it may take. */
import type { Fenced } from '../../core/backend.ts'
import { checkFenced } from '../../core/guard.ts'
import type { Seams } from '../../core/seams.ts'
import { Bound } from './bound.ts'
import type { Claim } from './record.ts'
import { storableText } from './text.ts'

export interface Call {
  readonly fenced: Fenced
  readonly claim: Claim
  readonly bound: Bound
}

type Parts = Readonly<{
  seams: Seams
  settings: Readonly<{ timeoutMs: number; resource: (lockName: string) => string }>
}>

/** Checks what the caller presents, before anything is sent. */
export function callOf({ settings, seams }: Parts, fenced: Fenced): Call {
  checkFenced(fenced)
  const claim: Claim = {
    resource: storableText('resource', settings.resource(fenced.lockName)),
    token: fenced.fencingToken.toString(),
    owner: fenced.owner,
    op: seams.nonce(),
    source: storableText('source', fenced.source),
  }
  return { fenced, claim, bound: new Bound(fenced, settings.timeoutMs, seams) }
}
