/**
 * Keeps a session alive, and proves that it was.
 *
 * A keep-alive answered is no proof: a leader that was deposed, or is cut off from its followers, goes on
 * answering for more than a second, and a frozen one answers when it wakes up [seen: "60 s left" where
 * 53 s were]. So the answer counts only if a linearizable read, sent after it came, shows the very raft
 * term of the answer: then that leader still led when the keep-alive was done. The read asks for the
 * entries on the session at once, and finds those that are gone.
 *
 * It counts from before the keep-alive left. Terms are compared as text.
 */
import { isLeaseGone } from '../../clients/etcd/errors.ts'
import type { Operation } from '../../clients/etcd/messages.ts'
import { instant } from '../../core/elapsed.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import type { Context } from './context.ts'
import type { Entry } from './entries.ts'
import type { Session } from './sessions.ts'
import { foundBy, look, transaction } from './transactions.ts'

/** etcd takes 128 operations in a transaction. */
const READS_MAX = 100
/** Terms differ while an election goes on, which takes about a second. */
const AGAIN_MS = 50

/** Which entries have their places still: when each was made, and on what lease it lies now. */
export type Present = ReadonlyMap<Entry, Readonly<{ revision: bigint; lease: string }>>

/** Whether its place is there, and lives as long as the session does that was kept alive for it. */
export function isKept(present: Present, entry: Entry, session: Session): boolean {
  const found = present.get(entry)
  return found?.revision === entry.createRevision && found.lease === session.id
}

/**
 * A session that has ended is told to `sessions`, and its entries are absent from the answer.
 *
 * @throws BackendUnavailableError when it could not be proved within `timeoutMs`.
 */
export async function confirm(
  context: Context,
  session: Session,
  entries: readonly Entry[],
  timeoutMs: number,
): Promise<Present> {
  const { client, seams, sessions } = context
  const untilMs = seams().nowMs() + timeoutMs
  for (;;) {
    const sent = instant(seams())
    const leftMs = untilMs - sent.nowMs
    if (leftMs <= 0) break
    let ttlSeconds: number
    let term: string | undefined
    try {
      const answer = await client.keepAlive(session.id, leftMs)
      ttlSeconds = Number(answer.TTL ?? 0)
      term = answer.header.raft_term
    } catch (error) {
      if (!isLeaseGone(error)) throw error
      ttlSeconds = 0
    }
    if (ttlSeconds <= 0) {
      sessions.end(session)
      return new Map()
    }
    const present = await read(context, entries, term, untilMs)
    // During an election etcd answers numbers that nobody granted (B073).
    if (present !== null && ttlSeconds * 1000 <= session.ttlMs) {
      if (sent.nowMs > session.confirmed.nowMs) {
        session.confirmed = sent
        session.term = term ?? ''
      }
      return present
    }
    await new Promise<void>((resolve) => {
      seams().after(AGAIN_MS, resolve, true)
    })
  }
  throw new BackendUnavailableError('no-quorum', 'etcd did not prove that a session is kept alive')
}

/** Null: in another term. */
export async function read(
  { client, keys, seams }: Context,
  entries: readonly Entry[],
  term: string | undefined,
  untilMs: number,
): Promise<Present | null> {
  const present = new Map<Entry, { revision: bigint; lease: string }>()
  for (let start = 0; start === 0 || start < entries.length; start += READS_MAX) {
    const some = entries.slice(start, start + READS_MAX)
    const asked: Operation[] = some.map(({ key }) => look({ key, keys_only: true }))
    // Without an entry any key will do: what counts is the term.
    if (asked.length === 0) asked.push(look({ key: keys.base, keys_only: true }))
    const leftMs = untilMs - seams().nowMs()
    const answer = await client.read('Txn', transaction([], asked), leftMs, 'a look at places')
    if (answer.header.raft_term !== term) return null
    for (const [index, entry] of some.entries()) {
      const [found] = foundBy(answer, index).kvs
      if (!found) continue
      present.set(entry, { revision: BigInt(found.create_revision), lease: found.lease ?? '0' })
    }
  }
  return present
}
