/** How the lab itself sees who holds locks, past Holdfast and past every proxy. */

import { askEtcd } from '../../servers/etcd.ts'
import { openRedis } from '../ground/redis-client.ts'
import type { HeldLock } from '../watchdog/holder.ts'

/** The owner of each lock; empty: nobody, there. Rejects when there is no answer. */
export interface Look {
  owners(locks: readonly HeldLock[]): Promise<readonly string[]>
  close(): void
}

/** `hf1:` and the 22 characters of an owner; see docs/wire.md. */
const OWNER_AT = 4
const OWNER_LENGTH = 22

export async function lookAtRedis(port: number): Promise<Look> {
  const redis = await openRedis({ redis: { host: '127.0.0.1', port } })
  return {
    owners: async (locks) => {
      const values = await redis.mget(locks.map(({ name }) => `lock:${name}`))
      return values.map((value) => (value ?? '').slice(OWNER_AT, OWNER_AT + OWNER_LENGTH))
    },
    close: () => redis.disconnect(),
  }
}

/**
 * What the majority of an etcd says: a linearizable range, which a member without a majority cannot answer.
 * All are asked, and the first answer counts.
 */
export function lookAtEtcd(ports: readonly number[]): Look {
  return {
    owners: (locks) => Promise.any(ports.map((port) => ownersInEtcd(port, locks))),
    close: () => {},
  }
}

interface Found {
  readonly kvs?: readonly { readonly key: string }[]
  readonly error?: string
  readonly header?: object
}

async function ownersInEtcd(port: number, locks: readonly HeldLock[]): Promise<string[]> {
  const names = locks.map(({ name }) => name).sort()
  const [first = '', last = first] = [names[0], names.at(-1)]
  // "0" is the character behind the slash.
  const range = { key: base64(`${first}/`), range_end: base64(`${last}0`) }
  const order = { sort_order: 'ASCEND', sort_target: 'CREATE', keys_only: true }
  const found = (await askEtcd(port, '/v3/kv/range', { ...range, ...order })) as Found
  if (found.header === undefined) throw new Error(found.error ?? 'no answer')
  const owners = new Map<string, string>()
  for (const { key } of found.kvs ?? []) {
    const [name = '', , owner = ''] = Buffer.from(key, 'base64').toString().split('/')
    // The place that was made first holds.
    if (!owners.has(name)) owners.set(name, owner)
  }
  return locks.map(({ name }) => owners.get(name) ?? '')
}

/** `alone` is one that serves its clients and has heard of no leader: then nothing gets through to it. */
export async function wordOfMember(port: number): Promise<string> {
  const { leader = '0' } = await askEtcd(port, '/v3/maintenance/status')
  const range = { key: base64('any'), serializable: true }
  const { header, error } = (await askEtcd(port, '/v3/kv/range', range)) as Found
  if (header === undefined) return `it does not serve: ${error}`
  return leader === '0' ? 'alone' : `it follows ${leader}`
}

function base64(text: string): string {
  return Buffer.from(text).toString('base64')
}
