/**
 * Two versions on the same keys and the same table: a deploy replaces processes one after another.
 *
 * The other version is the last tag, or, before there is one, the first commit whose wire is kept
 * (docs/wire.md). Both run as their users have them: the packed tarball, compiled.
 */
import { mkdirSync, mkdtempSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { Redis } from 'ioredis'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { hasCommit, lastVersion, packCommit } from '../../../../scripts/lib/pack.mjs'
import {
  type PostgresServer,
  type RedisServer,
  startPostgres,
  startRedis,
} from '../../../cli/src/lab/servers/index.ts'
import { packedTarballs, run } from './folders.ts'

const FIRST_WIRE = '4d3a4d06ec77bda35ab7fe2578795051e99c45d2'

type Library = typeof import('../../src/index.ts') &
  typeof import('../../src/redis.ts') &
  typeof import('../../src/guards/postgres.ts')

interface Version {
  readonly library: Library
  readonly client: Redis
  readonly pool: pg.Pool
}

const folder = mkdtempSync(join(tmpdir(), 'holdfast-wire-'))
const versions = new Map<string, Version>()
let redis: RedisServer
let postgres: PostgresServer

/** What a consumer's program would import. */
async function load(tarball: string, name: string): Promise<Library> {
  const home = join(folder, name, 'node_modules')
  mkdirSync(home, { recursive: true })
  const { code, output } = await run(home, 'tar', ['-xzf', tarball])
  if (code !== 0) throw new Error(`tar failed:\n${output}`)
  renameSync(join(home, 'package'), join(home, 'holdfast'))
  const entries = ['index.js', 'redis.js', 'guards/postgres.js']
  const urls = entries.map((entry) => pathToFileURL(join(home, 'holdfast/dist', entry)).href)
  const modules = await Promise.all(urls.map((url) => import(url)))
  return Object.assign({}, ...modules)
}

const previous = lastVersion() ?? FIRST_WIRE
const isMissing = !hasCommit(previous)
if (isMissing) {
  const remedy = 'a whole clone has it: git fetch --unshallow'
  console.warn(
    `left out, the version before beside this one: no commit ${previous} here; ${remedy}`,
  )
}

beforeAll(async () => {
  if (isMissing) return
  const old = await packCommit(previous, folder)
  redis = await startRedis()
  postgres = await startPostgres()
  for (const [name, tarball] of [
    ['the older version', old],
    ['this version', packedTarballs().holdfast],
  ] as const) {
    const library = await load(tarball, name.replaceAll(' ', '-'))
    const client = new Redis(redis.port, '127.0.0.1')
    const pool = new pg.Pool({ ...postgres.connection, max: 4 })
    versions.set(name, { library, client, pool })
  }
})

afterAll(async () => {
  for (const { client, pool } of versions.values()) {
    client.disconnect()
    await pool.end()
  }
  await redis?.stop()
  await postgres?.stop()
  rmSync(folder, { recursive: true, force: true })
})

afterEach(async () => {
  await [...versions.values()][0]?.client.flushall()
})

function locksOf({ library, client }: Version) {
  return library.createLocks(library.redisBackend(client), { ttlMs: 5000 })
}

describe.skipIf(isMissing).each([
  ['the older version', 'this version'],
  ['this version', 'the older version'],
])('%s beside %s', (mine, other) => {
  const open = () => {
    const first = versions.get(mine) as Version
    const second = versions.get(other) as Version
    return { first: locksOf(first), second: locksOf(second) }
  }

  // The accident: during a deploy both versions hold "the same" lock, under two keys.
  it('what one holds the other is refused, sees, waits for and gets with a larger token', async () => {
    const { first, second } = open()
    const held = await first.acquire('order:42', { label: 'first', value: 'v1' })
    expect(await second.tryAcquire('order:42')).toBeNull()
    expect(await second.inspect('order:42')).toMatchObject({
      fencingToken: held.fencingToken,
      holder: { pid: process.pid, label: 'first', value: 'v1' },
    })
    const listed = []
    for await (const lock of second.list()) listed.push(lock.lockName)
    expect(listed).toEqual(['order:42'])
    const waiting = second.acquire('order:42', { waitMs: 20_000 })
    await sleep(100)
    expect(await held.release()).toBe('released')
    const next = await waiting
    expect(next.fencingToken).toBeGreaterThan(held.fencingToken)
    expect(await next.release()).toBe('released')
    await Promise.all([first.close(), second.close()])
  })

  // The accident: each version draws from a counter of its own, and their tokens interleave.
  it('tokens rise over grants in turn, and over a floor that the other raised', async () => {
    const { first, second } = open()
    let last = 0n
    const turn = async (locks: typeof first): Promise<void> => {
      const lease = await locks.acquire('turns')
      expect(lease.fencingToken).toBeGreaterThan(last)
      last = lease.fencingToken
      await lease.release()
    }
    for (let round = 0; round < 10; round++) {
      await turn(first)
      await turn(second)
    }
    await first.backend.raise('turns', last + 10_000_000_000n)
    last += 10_000_000_000n
    await turn(second)
    await turn(first)
    await Promise.all([first.close(), second.close()])
  })

  // The accident: the mark by which one version says that it waits is no mark to the other, whose
  // own line then keeps the lock to itself.
  it('a lone contender of one gets its turns beside a line of the other, one at a time', async () => {
    const { first, second } = open()
    let inside = 0
    let most = 0
    const section = (locks: typeof first): Promise<void> =>
      locks.using('line', { waitMs: 30_000 }, async () => {
        inside += 1
        most = Math.max(most, inside)
        await sleep(1)
        inside -= 1
      })
    let turns = 0
    const endMs = performance.now() + 15_000
    // The line never ends by itself: without the mark the name is never free for another process.
    const stand = async (): Promise<void> => {
      while (turns < 5 && performance.now() < endMs) await section(first)
    }
    const alone = async (): Promise<void> => {
      while (turns < 5) {
        await section(second)
        if (performance.now() < endMs) turns += 1
        else return
      }
    }
    await Promise.all([...Array.from({ length: 6 }, stand), alone()])
    expect({ turns, most }).toEqual({ turns: 5, most: 1 })
    await Promise.all([first.close(), second.close()])
  })

  // The accident: a value that one version writes is a foreign one to the other.
  it('an operator of one revokes a lease of the other, whose holder is told why', async () => {
    const { first, second } = open()
    const held = await first.acquire('revoked', { ttlMs: 3000 })
    const { fencingToken } = held
    const reason = new Promise<unknown>((resolve) => {
      held.signal.addEventListener('abort', () => resolve(held.signal.reason))
    })
    const operator = await second.revoke('revoked', { fencingToken, reason: 'a test' })
    expect(operator?.fencingToken).toBeGreaterThan(fencingToken)
    expect(await reason).toMatchObject({ code: 'LEASE_LOST', reason: 'revoked' })
    await operator?.release()
    await Promise.all([first.close(), second.close()])
  })

  // The accident: the name of a job that ended early is free to the other version at once.
  it('a minimum hold of one is kept by the other', async () => {
    const { first, second } = open()
    const held = await first.acquire('job', { minHoldMs: 60_000 })
    await held.release()
    expect(await second.tryAcquire('job')).toBeNull()
    expect(await second.inspect('job')).toBeNull()
    await Promise.all([first.close(), second.close()])
  })

  // The accident: an attempt that one version has undone is granted later, because the tombstone
  // stands where the other does not look.
  it('an owner that was cancelled by one is granted nothing by the other', async () => {
    const { first, second } = open()
    const owner = 'A'.repeat(22)
    await first.backend.cancel('undone', owner)
    const holder = { host: 'h', pid: 1 }
    const asked = { lockName: 'undone', owner, ttlMs: 5000, timeoutMs: 1000, holder }
    const rest = { lockDelayMs: 0, waits: false, waiter: 'w', onLost: () => undefined }
    expect(await second.backend.tryAcquire({ ...asked, ...rest })).toMatchObject({ kind: 'held' })
    expect(await second.tryAcquire('undone')).not.toBeNull()
    await Promise.all([first.close(), second.close()])
  })

  // The accident: a guard of one version lets a writer pass that the other has superseded.
  it('a table that one made serves both, and each refuses what the other has superseded', async () => {
    const [one, two] = [versions.get(mine), versions.get(other)] as [Version, Version]
    await one.pool.query('DROP SCHEMA IF EXISTS holdfast CASCADE')
    const guards = [one, two].map(({ library, pool }) => library.postgresGuard(pool))
    const [first, second] = guards as [(typeof guards)[0], (typeof guards)[0]]
    await first?.migrate()
    await second?.migrate()
    const fenced = (fencingToken: bigint) => ({
      lockName: 'wallet',
      fencingToken,
      owner: String(fencingToken).repeat(22),
      source: 'redis:lock:',
    })
    const count = async (guard: typeof first, token: bigint): Promise<unknown> =>
      guard?.transaction(fenced(token), async (tx) => (await tx.query('SELECT 1 AS one')).rows)
    await count(first, 5n)
    await expect(count(second, 4n)).rejects.toMatchObject({ code: 'STALE_TOKEN', highest: 5n })
    // One lease, used by processes of both versions: no write of theirs is taken for a repeat.
    const claims = [await second?.claim(fenced(5n)), await first?.claim(fenced(5n))]
    expect(claims).toEqual([{ seq: 2n }, { seq: 3n }])
    await count(second, 6n)
    await expect(count(first, 5n)).rejects.toMatchObject({ code: 'STALE_TOKEN', highest: 6n })
    expect(await first?.highest('wallet')).toMatchObject({ fencingToken: 6n })
  })
})
