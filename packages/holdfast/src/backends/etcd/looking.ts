/** Questions that change nothing: who holds what, and who waits. */
import type { KeyValue } from '../../clients/etcd/messages.ts'
import type { LockInfo } from '../../core/backend.ts'
import { requestTimeoutMsMax } from '../../core/validity.ts'
import type { Context } from './context.ts'
import { inOrder } from './transactions.ts'
import { foreignInfo, foundAt, infoOf } from './value.ts'

const PAGE = 500

export async function inspect(context: Context, lockName: string): Promise<LockInfo | null> {
  const { client, keys } = context
  const range = inOrder(keys.rangeOf(lockName), 1)
  const answer = await client.read('Range', range, requestTimeoutMsMax, 'an inspect')
  const [first] = answer.kvs ?? []
  const contenderCount = Number(answer.count ?? 0) - 1
  return first ? shown(context, lockName, first, contenderCount) : null
}

/** In the order of keys, which are read in pages: all places of a name lie together. */
export async function* list(
  context: Context,
  prefix: string,
  limit: number,
): AsyncGenerator<LockInfo, void, undefined> {
  let told = 0
  let name: string | null = null
  let places: KeyValue[] = []
  for await (const found of pages(context, prefix)) {
    const read = context.keys.readKey(found.key)
    if (read === null) continue
    if (read.lockName !== name) {
      const info = name === null ? null : headOf(context, name, places)
      if (info) yield info
      if (info) told += 1
      if (told >= limit) return
      name = read.lockName
      places = []
    }
    places.push(found)
  }
  const info = name === null ? null : headOf(context, name, places)
  if (info) yield info
}

async function* pages(
  { client, keys }: Context,
  prefix: string,
): AsyncGenerator<KeyValue, void, undefined> {
  const { key: start, range_end } = keys.listingOf(prefix)
  let key = start
  for (;;) {
    const request = { key, range_end, limit: PAGE }
    const { kvs = [], more } = await client.read('Range', request, requestTimeoutMsMax, 'a listing')
    yield* kvs
    const last = kvs.at(-1)
    if (!more || !last) return
    key = Buffer.concat([last.key, Buffer.from([0])])
  }
}

function headOf(context: Context, name: string, places: readonly KeyValue[]): LockInfo | null {
  const isLock = (place: KeyValue): boolean => place.lease !== undefined && place.lease !== '0'
  const [head] = places
    .filter(isLock)
    .sort((a, b) => (BigInt(a.create_revision) < BigInt(b.create_revision) ? -1 : 1))
  return head ? shown(context, name, head, places.length - 1) : null
}

/** Null: the name rests, and nobody holds it. */
function shown(
  { keys }: Context,
  lockName: string,
  first: KeyValue,
  contenderCount: number,
): LockInfo | null {
  const place = keys.placeOf(lockName, first.key)
  if (place.kind === 'foreign') return foreignInfo(lockName, place.shown, contenderCount)
  const found = foundAt(first)
  return found.isRest ? null : infoOf(lockName, found, contenderCount)
}
