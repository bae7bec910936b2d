/**
 * Candidates in processes of their own that are killed, stopped and told to resign, and a guard that judges.
 *
 * Each leader writes by a plain `Fenced`, as one that had checked its term just before: so only the guard
 * refuses it. What the guard accepted stands in a table in the order of acceptance, and that table is the
 * verdict: terms that never go back, and each of one process.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { sqliteGuard } from '../../src/guards/sqlite.ts'
import { type Child, type Children, moduleUrl, openChildren } from './child.ts'
import type { OpenDatabase, SqliteDriver } from './sqlite-drivers.ts'

const CANDIDATES = 3
/** What must come to pass comes within this. */
const PATIENCE_MS = 30_000
const POLL_MS = 10

export interface Written {
  readonly term: bigint
  readonly pid: number
}

/** Opens a database by a driver, as text for a child. */
function openText(driver: SqliteDriver): string {
  if (driver.name === 'node:sqlite') {
    return `import { DatabaseSync } from 'node:sqlite'
const open = (path) => new DatabaseSync(path)`
  }
  const addon = process.env['HOLDFAST_BETTER_SQLITE3']
  const options = addon ? `, { nativeBinding: ${JSON.stringify(addon)} }` : ''
  return `import Database from ${moduleUrl('better-sqlite3')}
const open = (path) => new Database(path${options})`
}

/** The settings that the pages advise, for `new Redis(port, host, …)`. */
export const REDIS_TEXT = `
import ioredis from ${moduleUrl('ioredis')}
const connected = async (port) => {
  const client = new ioredis.Redis({ host: '127.0.0.1', port, enableOfflineQueue: false,
    autoResendUnfulfilledCommands: false, maxRetriesPerRequest: 0 })
  client.on('error', () => {})
  await new Promise((resolve) => client.once('ready', resolve))
  return client
}`

function candidateText(driver: SqliteDriver, dataPath: string, stand: ElectionStand): string {
  return `
import { setTimeout as sleep } from 'node:timers/promises'
${openText(driver)}
import { createLocks } from './dist/index.js'
import { createElection } from './dist/election.js'
import { sqliteGuard } from './dist/guards/sqlite.js'
${stand.backendText}
const guard = sqliteGuard(open(${JSON.stringify(dataPath)}))
const locks = createLocks(backend)
const election = createElection(locks, 'leaders:test', { ttlMs: ${stand.ttlMs}, drainMs: 100 })
const stop = new AbortController()
let term = null
let old = null
let isStill = false
const fencedOf = ({ lockName, fencingToken, owner, source }) => ({ lockName, fencingToken, owner, source })
const write = (fenced) => guard.transaction(fenced, (tx) =>
  tx.prepare('INSERT INTO writes (term, pid) VALUES (?, ?)').run(String(fenced.fencingToken), process.pid))
process.on('message', async (message) => {
  if (message === 'end') stop.abort()
  if (message === 'resign') await term?.resign().catch(() => {})
  if (message === 'stop') {
    // From inside, so that no file is locked while this process stands still.
    old = fencedOf(term)
    isStill = true
    await sleep(50)
    process.kill(process.pid, 'SIGSTOP')
    // Running again: as one that had checked its term before it was stopped.
    const late = await write(old).then(() => 'accepted', (error) => error.code)
    process.send('late ' + old.fencingToken + ' ' + late)
    isStill = false
  }
})
process.send('stands')
for await (const now of election.campaign({ value: String(process.pid), signal: stop.signal })) {
  term = now
  process.send('leads ' + now.fencingToken)
  const fenced = fencedOf(now)
  while (!now.signal.aborted) {
    if (!isStill) {
      const failed = await write(fenced).then(() => null, (error) => error.code)
      if (failed === 'STALE_TOKEN') break
      if (failed !== null && failed !== 'GUARD_BUSY') throw new Error(failed)
    }
    await sleep(5, undefined, { signal: now.signal }).catch(() => {})
  }
}
await locks.close()
process.send('over')
process.disconnect()
process.exit()
`
}

export interface ElectionStand {
  /** What the library itself imports for it. */
  readonly packages?: readonly string[]
  readonly ttlMs: number
  /** Statements of a child that give `backend`; `open(path)` opens a SQLite file. */
  readonly backendText: string
}

export class ElectionProcesses {
  readonly #folder: string
  readonly #children: Children
  readonly #text: string
  readonly #db: OpenDatabase
  readonly #candidates = new Map<number, Child>()
  readonly #ended: Child[] = []

  private constructor(folder: string, children: Children, db: OpenDatabase, text: string) {
    this.#folder = folder
    this.#children = children
    this.#db = db
    this.#text = text
  }

  static async open(driver: SqliteDriver, stand: ElectionStand): Promise<ElectionProcesses> {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-election-'))
    const path = join(folder, 'data.db')
    const db = driver.open(path)
    await sqliteGuard(db).migrate()
    db.exec('CREATE TABLE writes (id INTEGER PRIMARY KEY AUTOINCREMENT, term TEXT, pid INTEGER)')
    const children = await openChildren(stand.packages)
    const text = candidateText(driver, path, stand)
    const made = new ElectionProcesses(folder, children, db, text)
    await made.fill()
    return made
  }

  /** What the guard accepted, in the order of acceptance. */
  written(): Written[] {
    const rows = this.#db.prepare('SELECT term, pid FROM writes ORDER BY id').all() as {
      term: string
      pid: number
    }[]
    return rows.map(({ term, pid }) => ({ term: BigInt(term), pid: Number(pid) }))
  }

  /** Waits for a write of a later term. */
  async leaderAfter(term: bigint): Promise<Written & { readonly child: Child }> {
    const untilMs = performance.now() + PATIENCE_MS
    for (;;) {
      const last = this.#last()
      const child = last && this.#candidates.get(last.pid)
      if (last && child && last.term > term) return { ...last, child }
      if (performance.now() > untilMs) {
        throw new Error(`no leader after term ${term}: ${await this.#errors()}`)
      }
      await sleep(POLL_MS)
    }
  }

  /** By SIGKILL. */
  async kill(child: Child): Promise<void> {
    child.signal('SIGKILL')
    await child.ended
    this.#candidates.delete(child.pid)
    this.#ended.push(child)
  }

  /** One that waits. */
  async killWaiting(leader: Child): Promise<void> {
    const waiting = [...this.#candidates.values()].find((child) => child !== leader)
    if (waiting === undefined) throw new Error('nobody waits')
    await this.kill(waiting)
  }

  /** As many as there should be. */
  async fill(): Promise<void> {
    while (this.#candidates.size < CANDIDATES) await this.#add()
  }

  /** Lets a leader of `term` go on that stopped itself. @returns What became of the write that it tries. */
  async wake(child: Child, term: bigint): Promise<string> {
    const begin = `late ${term} `
    const untilMs = performance.now() + PATIENCE_MS
    child.signal('SIGCONT')
    for (;;) {
      const late = child.messages.map(String).find((message) => message.startsWith(begin))
      if (late !== undefined) return late.slice(begin.length)
      if (performance.now() > untilMs) throw new Error('the leader that was stopped says nothing')
      await sleep(POLL_MS)
    }
  }

  /** Ends all in order, and waits for it. */
  async end(): Promise<void> {
    for (const child of this.#candidates.values()) {
      child.send('end')
      await child.sent('over')
    }
  }

  /** All terms that candidates say they led, the killed ones too. */
  said(): bigint[] {
    return [...this.#candidates.values(), ...this.#ended]
      .flatMap(({ messages }) => messages.map(String))
      .flatMap((message) => (message.startsWith('leads ') ? [BigInt(message.slice(6))] : []))
  }

  async close(): Promise<void> {
    await this.#children.remove()
    this.#db.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }

  async #add(): Promise<void> {
    const child = this.#children.run(this.#text)
    this.#candidates.set(child.pid, child)
    await child.sent('stands')
  }

  #last(): Written | undefined {
    const row = this.#db.prepare('SELECT term, pid FROM writes ORDER BY id DESC LIMIT 1').get() as
      | { term: string; pid: number }
      | undefined
    return row && { term: BigInt(row.term), pid: Number(row.pid) }
  }

  /** Of candidates that ended by themselves. */
  async #errors(): Promise<string> {
    const over = await Promise.all(
      [...this.#candidates.values()].map(({ ended }) => Promise.race([ended, sleep(10, null)])),
    )
    return over.map((one) => one?.stderr ?? 'runs').join('; ')
  }
}
