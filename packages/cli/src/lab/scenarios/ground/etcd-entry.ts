/**
 * What stands in etcd, read past Holdfast and past its client: the lab's own look, by the JSON gateway.
 * The keys are those of docs/wire.md.
 */
import { askEtcd } from '../../servers/etcd.ts'

export interface EtcdEntry {
  /** The key of the place that was made first: it ends with the owner. */
  readonly key: string
  /** The session that it stands on, decimal. */
  readonly session: string
}

interface Found {
  readonly kvs?: readonly { readonly key: string; readonly lease?: string }[]
  readonly header?: object
  readonly error?: string
}

const SECOND_MS = 1_000

/** Who holds a name without `/` or `%`; null: nobody. Rejects when the member does not answer. */
export async function etcdEntry(port: number, name: string): Promise<EtcdEntry | null> {
  // "0" is the character behind the slash, so the range has the places of this name alone.
  const range = { key: base64(`${name}/`), range_end: base64(`${name}0`) }
  const byCreation = { sort_order: 'ASCEND', sort_target: 'CREATE', limit: '1' }
  const found = (await askEtcd(port, '/v3/kv/range', { ...range, ...byCreation })) as Found
  if (found.header === undefined) throw new Error(found.error ?? 'no answer')
  const [first] = found.kvs ?? []
  if (first === undefined) return null
  return { key: Buffer.from(first.key, 'base64').toString(), session: first.lease ?? '0' }
}

/** For how long a session was granted; 0: it is over. */
export async function grantedTtlMs(port: number, session: string): Promise<number> {
  const { grantedTTL } = await askEtcd(port, '/v3/lease/timetolive', { ID: session })
  return Number(grantedTTL ?? 0) * SECOND_MS
}

/** Writes a key; true when etcd says that it is done. */
export async function putInEtcd(port: number, key: string, value: string): Promise<boolean> {
  const answer = await askEtcd(port, '/v3/kv/put', { key: base64(key), value: base64(value) })
  return answer['error'] === undefined && answer['header'] !== undefined
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
