/**
 * Who holds what, as a quorum of nodes sees it.
 *
 * What nodes say is put together by the owner, never by the token: a node may have recorded another
 * token than the lease's. An owner that fewer than a quorum names does not hold the lock.
 */
import { assert } from '../../core/assert.ts'
import type { LockInfo } from '../../core/backend.ts'
import { BackendUnavailableError } from '../../core/errors.ts'
import type { RedisKeys } from '../../wire/keys.ts'
import { failureOf, textsOf } from '../../wire/replies.ts'
import { foreignInfoOf, lockInfoOf } from '../../wire/value.ts'
import { NodeRequest } from './node-request.ts'
import { INSPECT, LIST } from './scripts/look.ts'
import { Survey } from './survey.ts'
import { noQuorum, type Voters } from './voters.ts'

/** Keys of a server that one page walks over: some tenths of a millisecond of its time. */
const WALKED_PER_PAGE = 250
const FIELDS_PER_LOCK = 6
const TIMEOUT_MS = 500
const PAGE_TIMEOUT_MS = 2000

/** One lock on one node. `id`: the owner of ours, or the digest of a foreign value. */
interface Seen {
  readonly node: number
  readonly kind: string
  readonly leftMs: number
  readonly first: string
  readonly second: string
  readonly id: string
}

/** A lock that a quorum of nodes keeps for the same owner. */
export interface QuorumView {
  readonly info: LockInfo
  /** 22 characters, a secret; of a foreign value its SHA-1. */
  readonly id: string
}

export class RedlockLooking {
  readonly #voters: Voters
  readonly #keys: RedisKeys

  constructor(voters: Voters, keys: RedisKeys) {
    this.#voters = voters
    this.#keys = keys
  }

  /** @throws NotALockError when a quorum has something there that is no lock. */
  async inspect(lockName: string): Promise<QuorumView | null> {
    const { quorum } = this.#voters
    const seen: Seen[] = []
    const lock = this.#keys.lock(lockName)
    const survey = new Survey(this.#voters, {
      request: (node, asker) => new NodeRequest(INSPECT, [lock], [], asker, node, TIMEOUT_MS),
      read: (node, reply, asked) => {
        const [kind = '', second = '', third = '', fourth = '', id = ''] = textsOf(reply)
        if (kind === 'not-a-lock') {
          asked.blame(node, failureOf([kind, second, third]))
          return 'failed'
        }
        if (kind === 'free' || kind === 'rest') return 'no'
        seen.push(seenOf(node, kind, second, third, fourth, id))
        return 'yes'
      },
      // The more answers, the newer is what they show.
      isDecided: () => false,
    })
    await survey.result
    const agreed = this.#agreed(lockName, seen)
    if (agreed !== null) return agreed
    if (survey.count('yes') + survey.count('no') >= quorum) return null
    throw noQuorum(this.#voters, 'inspect', survey.votes(), false)
  }

  /** What all nodes that answer have, put together by name. */
  async *list(prefix: string, limit: number): AsyncGenerator<LockInfo, void, undefined> {
    const byName = new Map<string, Seen[]>()
    const walks = this.#voters.ports.map((port) => this.#walk(port.index, prefix, byName))
    const ended = await Promise.allSettled(walks)
    const failures = ended.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
    if (ended.length - failures.length < this.#voters.quorum) {
      const message = 'list needs answers of a quorum of the nodes'
      const [cause] = failures
      if (cause instanceof BackendUnavailableError) throw cause
      throw new BackendUnavailableError('no-quorum', message, { cause })
    }
    let listed = 0
    for (const [lockName, seen] of byName) {
      const agreed = this.#agreed(lockName, seen)
      if (agreed === null) continue
      if (listed >= limit) return
      listed += 1
      yield agreed.info
    }
  }

  async #walk(node: number, prefix: string, byName: Map<string, Seen[]>): Promise<void> {
    const port = this.#voters.ports[node]
    assert(port !== undefined, 'a node is walked through')
    const names = new Set<string>()
    const start = this.#keys.prefix + prefix
    const rest = [String(WALKED_PER_PAGE), String(Buffer.byteLength(prefix))]
    let cursor = '0'
    do {
      const args = [cursor, ...rest]
      const page = await port.ask(LIST, [start], args, textsOf, PAGE_TIMEOUT_MS)
      const [next = '0', ...fields] = page
      for (let at = 0; at < fields.length; at += FIELDS_PER_LOCK) {
        const [name = '', kind = '', left = '', first = '', second = '', id = ''] = fields.slice(at)
        // SCAN may give a key twice, while the server's table grows or shrinks.
        if (names.has(name)) continue
        names.add(name)
        const found = byName.get(name)
        const seen = seenOf(node, kind, left, first, second, id)
        if (found === undefined) byName.set(name, [seen])
        else found.push(seen)
      }
      cursor = next
    } while (cursor !== '0')
  }

  #agreed(lockName: string, all: readonly Seen[]): QuorumView | null {
    const { quorum } = this.#voters
    for (const { id } of all) {
      const same = all.filter((one) => one.id === id)
      if (same.length >= quorum) return { id, info: infoOf(lockName, same, quorum) }
    }
    return null
  }
}

function seenOf(
  node: number,
  kind: string,
  left: string,
  first: string,
  second: string,
  owner: string,
): Seen {
  return { node, kind, leftMs: Number(left), first, second, id: kind === 'lock' ? owner : second }
}

/** Its end is the quorum-th largest; its token the one that most of them recorded. */
function infoOf(lockName: string, same: readonly Seen[], quorum: number): LockInfo {
  const byLife = [...same].sort((a, b) => b.leftMs - a.leftMs)
  const leftMs = byLife[quorum - 1]?.leftMs ?? 0
  const times = (token: string): number => same.filter(({ first }) => first === token).length
  const [shown] = [...same].sort(
    (a, b) => times(b.first) - times(a.first) || latest(a, b) || a.node - b.node,
  )
  assert(shown !== undefined, 'a quorum is not empty')
  const { kind, first, second } = shown
  if (kind === 'lock') return lockInfoOf(lockName, leftMs, first, second)
  return foreignInfoOf(lockName, leftMs, first)
}

/** The largest number of a proclaimed value, which may be the only one that has arrived. */
function latest(a: Seen, b: Seen): number {
  return proclamation(b.second) - proclamation(a.second)
}

function proclamation(metadata: string): number {
  return Number(/,"n":(\d+),"[vV]":"/.exec(metadata)?.[1] ?? 0)
}
