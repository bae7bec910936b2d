/** Real clients, by their own types: whatever a user has already is accepted as it is. */
import { createLocks } from 'holdfast'
import { postgresGuard } from 'holdfast/guards/postgres'
import { redisBackend } from 'holdfast/redis'
import { Cluster, Redis } from 'ioredis'
import { Cluster as Cluster5, Redis as Redis5 } from 'ioredis5'
import { Client, Pool } from 'pg'
import postgres from 'postgres'
import { createClient, createClientPool, createCluster, createSentinel } from 'redis'
import * as redis5 from 'redis5'

const sentinel = { name: 'main', sentinelRootNodes: [] }

export const backends = [
  redisBackend(new Redis()),
  redisBackend(new Cluster([])),
  redisBackend(new Redis5()),
  redisBackend(new Cluster5([])),
  redisBackend(createClient()),
  redisBackend(createClient({ RESP: 3 })),
  redisBackend(createClientPool()),
  redisBackend(createCluster({ rootNodes: [] })),
  redisBackend(createSentinel(sentinel)),
  redisBackend(redis5.createClient()),
  redisBackend(redis5.createClientPool()),
  redisBackend(redis5.createCluster({ rootNodes: [] })),
  redisBackend(redis5.createSentinel(sentinel)),
]

export const subscribed = [
  redisBackend(new Redis(), { subscriber: new Redis() }),
  redisBackend(new Redis5(), { subscriber: new Redis5() }),
  redisBackend(createClient(), { subscriber: createClient() }),
  redisBackend(redis5.createClient(), { subscriber: redis5.createClient() }),
]

const guard = postgresGuard(new Pool())
const locks = createLocks(redisBackend(new Redis()))

/** The transaction is the driver's own client: its generics reach the caller. */
export const balance: number | undefined = await locks.using('wallet:42', (lease) =>
  guard.transaction(lease, async (tx) => {
    const { rows } = await tx.query<{ balance: number }>('select balance from wallets')
    return rows[0]?.balance
  }),
)

/** A claim inside the caller's own transaction takes a pooled client. */
export async function own(pool: Pool): Promise<bigint> {
  await using lease = await locks.acquire('wallet:42')
  const client = await pool.connect()
  try {
    await client.query('begin')
    const { seq } = await guard.claim(lease, client)
    await client.query('commit')
    return seq
  } finally {
    client.release()
  }
}

const sql = postgres()
const jsGuard = postgresGuard(sql)

/** The other driver: the function is given what `sql.begin` would give it, and its row types reach on. */
export const sums: Promise<number | undefined> = locks.using('wallet:42', (lease) =>
  jsGuard.transaction(lease, async (tx) => {
    const rows = await tx<{ balance: number }[]>`select balance from wallets where id = ${42}`
    await tx.savepoint((inner) => inner`update wallets set balance = 1`)
    return rows[0]?.balance
  }),
)

export const ownJs: Promise<bigint> = locks.using('wallet:42', (lease) =>
  sql.begin(async (tx) => (await jsGuard.claim(lease, tx)).seq),
)

/** Types of the user's own are part of the transaction's type. */
const typed = postgres({
  types: { point: { to: 600, from: [600], serialize: String, parse: (text: string) => text } },
})
export const withTypes: Promise<unknown> = locks.using('wallet:42', (lease) =>
  postgresGuard(typed).transaction(lease, async (tx) => tx`select ${tx.typed.point('(1,2)')}`),
)

export async function notInside(): Promise<void> {
  await using lease = await locks.acquire('wallet:42')
  // @ts-expect-error the pool itself is no transaction
  await jsGuard.claim(lease, sql)
  // @ts-expect-error nor is a reserved connection, which may have begun none
  await jsGuard.claim(lease, await sql.reserve())
}

// @ts-expect-error a client is no pool: the guard needs connections of its own
postgresGuard(new Client())
