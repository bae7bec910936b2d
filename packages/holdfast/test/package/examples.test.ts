/** The programs in `examples/`, compiled against the packed tarball and run on real servers. */
import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  findPrograms,
  MissingServerError,
  type PostgresServer,
  type RedisServer,
  type ServerKind,
  startEtcd,
  startPostgres,
  startRedis,
  startRedisCluster,
} from '../../../cli/src/lab/servers/index.ts'
import { linkPackages, packedTarballs, ROOT, run, runNode } from './folders.ts'

const { holdfast } = packedTarballs()

/** What each prints, line by line; the others have tests of their own. */
const PRINTS: Readonly<Record<string, readonly RegExp[]>> = {
  'first-lock': [/^held report:daily for \d+ ms at least$/],
  'memory-guard': [/^STALE_TOKEN 101$/],
  connect: [/^held, token \d{16}$/],
  'connect-redis': [/^held, token \d{16}$/],
  'connect-options': [
    /^not now: no connection to Redis at 127\.0\.0\.1:1 within 3000 ms: the connection was refused/,
    /^change the set-up: url is "redsi:", allowed: one of memory:, sqlite:, redis:, /,
    /^held report:daily$/,
  ],
  'quick-start': [/^held with fencing token \d{16}$/],
  'guarded-write': [/^balance 101$/],
  handle: [
    /^exported customers$/,
    /^exported orders$/,
    /^exported invoices$/,
    /^done$/,
    /^someone else does it$/,
    /^invoice 7 is ours for \d+ ms at least$/,
  ],
  errors: [
    /^sent$/,
    /^busy: held by process \d+$/,
    /^lost \(expired\): check what was done$/,
    /^refused: a newer holder has the data$/,
  ],
  operators: [
    /^wallet:42 import of March \d+ ms left$/,
    /^the old holder's write: STALE_TOKEN$/,
    /^held by: nobody$/,
  ],
  events: [
    /^\{"event":"acquired","lockName":"report:daily","fencingToken":"\d{16}","waitedMs":[\d.]+\}$/,
    /^\{"event":"refused","lockName":"report:daily","waitedMs":[\d.]+\}$/,
    /^\{"event":"released","lockName":"report:daily","fencingToken":"\d{16}","heldMs":[\d.]+\}$/,
    /^\{"event":"acquired","lockName":"invoice:7",/,
    /^\{"event":"lost","lockName":"invoice:7",.*"reason":"max-hold"\}$/,
    /^using rejected: LEASE_LOST$/,
    /^\{ acquired: 2, refused: 1, released: 1, lost: 1 \}$/,
  ],
  election: [/^process \d+ leads in term \d{16}$/],
  elections: [
    /^instance a leads$/,
    /^instance a leads in term \d{16}$/,
    /^instance b leads$/,
    /^at the end: null$/,
  ],
  migrating: [
    /^while the old program holds it: null$/,
    /^while we hold it, the old program gets: null$/,
    /^done$/,
    /^another process has it$/,
  ],
  'own-transaction': [/^balance 101$/],
  'postgres-js': [/^balance 102$/],
  'column-form': [/^applied$/, /^applied$/, /^already-applied$/, /^STALE_TOKEN$/, /^balance 2$/],
  'database-rights': [
    /^CREATE SCHEMA IF NOT EXISTS "shop_fences";$/,
    /^CREATE TABLE IF NOT EXISTS "shop_fences"\.fences \($/,
    ...Array.from({ length: 8 }, () => /^(?: {2}|\) WITH)/),
    /^COMMENT ON TABLE "shop_fences"\.fences IS 'Holdfast fences, schema version 1';$/,
    /^$/,
    /^ALTER TABLE "orders"$/,
    ...Array.from({ length: 8 }, () => /^ {2}/),
    /^$/,
    /^the table "shop_fences"\.fences is missing$/,
    ...Array.from({ length: 5 }, () => /^"orders" has no column "fence\w*" \(\w+\)$/),
    /^"orders" has no check "holdfast_fence"$/,
    /^\{ schemaVersion: 1, problems: \[\], ddl: '' \}$/,
  ],
  'child-process': [/^the child wrote: balance 101$/],
  'testing-late': [/^STALE_TOKEN 100$/],
  'testing-faults': [/^told before the TTL: true$/],
  watching: [/^2 held, the oldest since about \d+ s, 1 refused$/],
  sqlite: [/^held report:daily$/],
  'sqlite-guard': [/^balance 101$/, /^applied$/, /^STALE_TOKEN$/],
  clients: [/^held, token \d{16}$/, /^held, token \d{16}$/],
}
/** What a test runner prints is its own affair. */
const OTHERS = ['cluster', 'etcd', 'redlock', 'shutdown', 'testing']

const RUN_MS_MAX = 60_000

function missingServer(...kinds: readonly ServerKind[]): string | null {
  for (const kind of kinds) {
    try {
      findPrograms(kind)
    } catch (error) {
      if (error instanceof MissingServerError) return error.message
      throw error
    }
  }
  return null
}

// The accident: an example is added, shown in a page, and never run.
it('every example is run here', () => {
  const names = readdirSync(join(ROOT, 'examples')).flatMap(
    (file) => /^(.+)\.ts$/.exec(file)?.[1] ?? [],
  )
  expect(names.sort()).toEqual([...Object.keys(PRINTS), ...OTHERS].sort())
})

const whyNot = missingServer('redis', 'postgres')
if (whyNot !== null) console.warn(`left out, the examples on real servers: ${whyNot}`)

describe.skipIf(whyNot !== null)('on real servers', () => {
  let folder: string
  let redis: RedisServer
  let postgres: PostgresServer
  let inspector: Redis
  const running = new Set<ChildProcess>()

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'holdfast-examples-'))
    await prepare(folder)
    ;[redis, postgres] = await Promise.all([startRedis(), startPostgres()])
    inspector = new Redis(redis.port, '127.0.0.1')
    inspector.on('error', () => undefined)
  })

  afterAll(async () => {
    for (const child of running) child.kill('SIGKILL')
    await inspector?.quit()
    await Promise.all([redis?.stop(), postgres?.stop()])
    rmSync(folder, { recursive: true, force: true })
  })

  function start(name: string, env: Readonly<Record<string, string>> = {}) {
    const { host, port, user, database } = postgres.connection
    const servers = { REDIS_URL: `redis://127.0.0.1:${redis.port}`, PGHOST: host, PGUSER: user }
    const child = spawn(process.execPath, [join(folder, 'dist', `${name}.js`)], {
      cwd: folder,
      env: { ...process.env, ...servers, PGPORT: `${port}`, PGDATABASE: database, ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: RUN_MS_MAX,
      killSignal: 'SIGKILL',
    })
    running.add(child)
    const output = { text: '', errors: '' }
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      output.text += text
    })
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      output.errors += text
    })
    const ended = new Promise<number | null>((resolve) => {
      child.once('close', (code) => {
        running.delete(child)
        resolve(code)
      })
    })
    return { child, output, ended }
  }

  /** Until the program has printed it; its end without it is a failure. */
  async function printed(program: ReturnType<typeof start>, what: string): Promise<void> {
    const { child, output } = program
    for (const untilMs = performance.now() + RUN_MS_MAX; performance.now() < untilMs; ) {
      if (output.text.includes(what)) return
      if (child.exitCode !== null) break
      await sleep(20)
    }
    throw new Error(`did not print "${what}": ${output.text}${output.errors}`)
  }

  async function heldLocks(): Promise<string[]> {
    return (await inspector.keys('lock:*')).filter((key) => !key.startsWith('lock:#hf:'))
  }

  // The accident: what people copy does not work, prints something else, or never ends.
  it.for(Object.entries(PRINTS))(
    '%s prints what it should, and ends',
    async ([name, wanted], { skip }) => {
      const lack = /^(?:sqlite.*|connect|election)$/.test(name) ? await whyNoSqlite(folder) : null
      if (lack !== null) skip(`better-sqlite3 does not load: ${lack}`)
      await inspector.flushall()
      const { output, ended } = start(name)
      expect({ code: await ended, errors: output.errors }).toEqual({ code: 0, errors: '' })
      const lines = output.text.trimEnd().split('\n')
      expect(lines).toEqual(wanted.map((line) => expect.stringMatching(line)))
      // `handle` shows a minimum hold, which outlives its holder on purpose.
      expect(await heldLocks()).toEqual(name === 'handle' ? ['lock:nightly'] : [])
    },
  )

  it('cluster prints what it should, and ends', async () => {
    const { nodes, stop } = await startRedisCluster()
    try {
      const addresses = nodes.map(({ port }) => `127.0.0.1:${port}`).join()
      const { output, ended } = start('cluster', { REDIS_CLUSTER: addresses })
      expect({ code: await ended, errors: output.errors }).toEqual({ code: 0, errors: '' })
      const held = '(?:report:daily|wallet:42|\\{orders\\}:import) held, token \\d{16}\n'
      expect(output.text).toMatch(new RegExp(`^(?:${held}){6}$`))
    } finally {
      await stop()
    }
  })

  it('etcd writes while its lock is held, is refused afterwards, and ends', async ({ skip }) => {
    const lack = missingServer('etcd')
    if (lack !== null) skip(lack)
    const etcd = await startEtcd()
    try {
      const { output, ended } = start('etcd', { ETCD_ENDPOINTS: etcd.endpoint })
      expect({ code: await ended, errors: output.errors }).toEqual({ code: 0, errors: '' })
      expect(output.text).toMatch(
        /^held, token \d+\nwhile it is held: written\nwhen it is over: refused\n$/,
      )
    } finally {
      await etcd.stop()
    }
  })

  it('redlock prints what it should, and ends', async () => {
    const nodes = await Promise.all([startRedis(), startRedis(), startRedis()])
    try {
      const hosts = nodes.map(({ port }) => `127.0.0.1:${port}`).join()
      const { output, ended } = start('redlock', { REDLOCK_URL: `redlock://${hosts}` })
      expect({ code: await ended, errors: output.errors }).toEqual({ code: 0, errors: '' })
      expect(output.text).toMatch(/^held, token \d{16}\n$/)
    } finally {
      await Promise.all(nodes.map((node) => node.stop()))
    }
  })

  it('testing passes its own tests, and ends', async () => {
    const { output, ended } = start('testing')
    expect({ code: await ended, errors: output.errors }).toEqual({ code: 0, errors: '' })
    expect(output.text).toMatch(/^(?:#|ℹ) pass 3$/m)
    expect(output.text).toMatch(/^(?:#|ℹ) fail 0$/m)
  })

  // The accident: every deployment leaves locks behind, and the next version waits for their TTL.
  it('shutdown lets a short piece of work end, and leaves no lock', async () => {
    const program = start('shutdown', { WORK_MS: '2000' })
    await printed(program, 'working')
    expect(await heldLocks()).toEqual(['lock:queue:mail'])
    program.child.kill('SIGTERM')
    expect(await program.ended).toBe(0)
    expect(program.output.text).toContain('work done\nended\n')
    expect(program.output.errors).toBe('')
    expect(await heldLocks()).toEqual([])
  })

  it('shutdown tells a long piece of work to end, and leaves no lock', async () => {
    const program = start('shutdown', { WORK_MS: '600000' })
    await printed(program, 'working')
    program.child.kill('SIGTERM')
    expect(await program.ended).toBe(0)
    expect(program.output.text).toBe('working\nwork aborted\nended\n')
    expect(await heldLocks()).toEqual([])
  })

  // Waiting for a lock must not outlast the wish to stop.
  it('shutdown ends a process that waits for the lock', async () => {
    const holder = start('shutdown', { WORK_MS: '600000' })
    await printed(holder, 'working')
    const waiting = start('shutdown')
    for (let polls = 0; (await inspector.exists('lock:#hf:want:queue:mail')) === 0; polls++) {
      if (polls > 1000) throw new Error('the second process does not wait')
      await sleep(20)
    }
    waiting.child.kill('SIGTERM')
    expect(await waiting.ended).toBe(0)
    expect(waiting.output).toEqual({ text: 'ended\n', errors: '' })
    expect(await heldLocks()).toEqual(['lock:queue:mail'])
    holder.child.kill('SIGTERM')
    expect(await holder.ended).toBe(0)
    expect(await heldLocks()).toEqual([])
  })
})

/** better-sqlite3 with the addon for the running Node, where that is not the one of `npm install`. */
function installSqlite(folder: string): void {
  const addon = process.env['HOLDFAST_BETTER_SQLITE3']
  if (!addon) return linkPackages(folder, ['better-sqlite3'])
  const own = join(folder, 'node_modules/better-sqlite3')
  for (const part of ['package.json', 'lib']) {
    cpSync(join(ROOT, 'node_modules/better-sqlite3', part), join(own, part), { recursive: true })
  }
  cpSync(addon, join(own, 'build/Release/better_sqlite3.node'))
  linkPackages(folder, ['bindings', 'file-uri-to-path'])
}

/** Null: it loads. */
async function whyNoSqlite(folder: string): Promise<string | null> {
  const { code, output } = await run(folder, process.execPath, [
    '-e',
    "new (require('better-sqlite3'))(':memory:')",
  ])
  return code === 0 ? null : output
}

/** A consumer's folder: the package as npm would unpack it, the drivers, the examples compiled. */
async function prepare(folder: string): Promise<void> {
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}\n')
  const own = join(folder, 'node_modules/holdfast')
  mkdirSync(own, { recursive: true })
  const unpack = ['-xzf', holdfast, '-C', own, '--strip-components=1']
  const { code, output } = await run(folder, 'tar', unpack)
  if (code !== 0) throw new Error(`tar failed:\n${output}`)
  linkPackages(folder, ['@types/better-sqlite3', '@types/node', '@types/pg'])
  linkPackages(folder, ['@grpc/grpc-js', '@grpc/proto-loader'])
  linkPackages(folder, ['ioredis', 'pg', 'postgres', 'redis'])
  installSqlite(folder)
  for (const name of readdirSync(join(ROOT, 'examples'))) {
    if (name !== 'dist') {
      cpSync(join(ROOT, 'examples', name), join(folder, name), { recursive: true })
    }
  }
  cpSync(join(ROOT, 'tsconfig.base.json'), join(folder, 'tsconfig.base.json'))
  const tsconfig = {
    extends: './tsconfig.base.json',
    compilerOptions: {
      declaration: false,
      isolatedDeclarations: false,
      rootDir: '.',
      outDir: 'dist',
    },
    include: ['**/*.ts'],
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(tsconfig))
  const compiled = await runNode(folder, join(ROOT, 'node_modules/typescript/bin/tsc'))
  if (compiled.code !== 0) throw new Error(`the examples do not compile:\n${compiled.output}`)
}
