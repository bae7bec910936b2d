/** Questions that change nothing: who holds what, as the store sees it. */
import type { RedisScripts } from '../../clients/redis.ts'
import type { LockInfo } from '../../core/backend.ts'
import type { RedisKeys } from '../../wire/keys.ts'
import { failureOf, textsOf } from '../../wire/replies.ts'
import { foreignInfoOf, lockInfoOf } from '../../wire/value.ts'
import { INSPECT, LIST } from './scripts/look.ts'

/** Keys of the server that one page walks over: some tenths of a millisecond of its time. */
const WALKED_PER_PAGE = 250
const FIELDS_PER_LOCK = 5
const REMEMBERED_MAX = 10_000

interface Foreign {
  readonly head: string
  /** SHA-1 of the whole value. */
  readonly digest: string
}

export class RedisLooking {
  readonly #scripts: RedisScripts
  readonly #keys: RedisKeys
  /**
   * The foreign values that were shown, by lock name: two of them may begin with the same 64 bytes,
   * and a revoke must not take from another one than was seen.
   */
  readonly #shown = new Map<string, Foreign>()

  constructor(scripts: RedisScripts, keys: RedisKeys) {
    this.#scripts = scripts
    this.#keys = keys
  }

  /** @throws NotALockError when what stands there never expires or is of another type. */
  async inspect(lockName: string): Promise<LockInfo | null> {
    const [kind = '', ...rest] = await this.#ask(lockName)
    if (kind === 'free' || kind === 'rest') return null
    if (kind === 'not-a-lock') throw failureOf([kind, ...rest])
    return this.#infoOf(lockName, kind, rest)
  }

  /**
   * The digest of the foreign value seen, or null: it is not that one any more. The digest is of the
   * whole value, so it goes on to mean this one and no other that begins alike.
   */
  async digestOf(lockName: string, foreignOwner: string): Promise<string | null> {
    const shown = this.#shown.get(lockName)
    const [kind, , head = '', digest = ''] = await this.#ask(lockName)
    if (kind !== 'foreign' || head !== foreignOwner) return null
    return shown?.head === head && shown.digest !== digest ? null : digest
  }

  /** @param learn Sees to it that the client's prefix is known. */
  async *list(
    prefix: string,
    limit: number,
    learn: () => Promise<unknown>,
  ): AsyncGenerator<LockInfo, void, undefined> {
    // SCAN may give a key twice, while the server's table grows or shrinks, or a slot moves.
    const listed = new Set<string>()
    // To a primary of a cluster it is not sent as a key, which would have to lie there.
    const isKey = !this.#scripts.isCluster
    if (!isKey) await learn()
    const start = this.#keys.prefix + prefix
    const keys = isKey ? [start] : []
    const args = [String(WALKED_PER_PAGE), String(Buffer.byteLength(prefix))]
    if (!isKey) args.push(this.#keys.clientPrefix + start)
    for (const primary of await this.#scripts.primaries()) {
      let cursor = '0'
      do {
        const [next = '0', ...fields] = await primary.run(LIST, keys, [cursor, ...args], textsOf)
        for (let at = 0; at < fields.length; at += FIELDS_PER_LOCK) {
          const [name = '', kind = '', ...rest] = fields.slice(at, at + FIELDS_PER_LOCK)
          if (listed.has(name)) continue
          if (listed.size >= limit) return
          listed.add(name)
          yield this.#infoOf(name, kind, rest)
        }
        cursor = next
      } while (cursor !== '0')
    }
  }

  async #ask(lockName: string): Promise<string[]> {
    return this.#scripts.run(INSPECT, [this.#keys.lock(lockName)], [], textsOf)
  }

  #infoOf(
    lockName: string,
    kind: string,
    [left = '', first = '', second = '']: string[],
  ): LockInfo {
    const remainingMs = Number(left)
    if (kind === 'lock') return lockInfoOf(lockName, remainingMs, first, second)
    this.#remember(lockName, { head: first, digest: second })
    return foreignInfoOf(lockName, remainingMs, first)
  }

  #remember(lockName: string, foreign: Foreign): void {
    if (this.#shown.size >= REMEMBERED_MAX) this.#shown.clear()
    this.#shown.set(lockName, foreign)
  }
}
