/** Eight processes on one lock file, while some of them are stopped, continued and killed. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sqliteBackendWith } from '../../src/backends/sqlite/sqlite-backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { type Child, type Children, openChildren } from '../support/child.ts'
import { childDrivers, childHead } from '../support/sqlite-child.ts'
import type { SqliteDriver } from '../support/sqlite-drivers.ts'

const PROCESSES = 8
/** Short, so that the dead and the stopped lose their locks many times. */
const TTL_MS = 400
const RUN_MS = 5000
/** A slow machine takes longer for them. */
const KILLS_MIN = 4
/** Longer than a lease lasts. */
const STOP_MS = 700

/**
 * A holder certifies that it holds: the moment is read before the lease is asked, so the lease was
 * valid at that moment too. Moments of all processes are on the one monotonic clock of the machine.
 */
const hammer = (names: number): string => `
const locks = createLocks(backend, { ttlMs: ${TTL_MS}, waitMs: 30000 })
// A process that is stopped inside a transaction keeps the others out of the file meanwhile.
const unanswered = (error) => {
  if (!['OUTCOME_UNKNOWN', 'BACKEND_UNAVAILABLE'].includes(error.code)) throw error
}
let isOver = false
process.on('message', (message) => { if (message === 'end') isOver = true })
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
process.send('ready')
let sections = 0
// Whoever is asked to end still waits for its turn.
for (let index = process.pid; !isOver || sections === 0; index++) {
  const lockName = 'n' + index % ${names}
  const lease = await locks.acquire(lockName).catch(unanswered)
  if (!lease) continue
  const certify = () => {
    const at = String(process.hrtime.bigint())
    lease.assertValid()
    note({ lockName, token: String(lease.fencingToken), owner: lease.owner, at })
  }
  try {
    // Some hold for longer than a TTL, by renewals.
    const steps = index % 5 === 0 ? ${TTL_MS / 10} : 3
    for (let step = 0; step < steps; step++) {
      certify()
      await pause(index % 5 === 0 ? 15 : index % 5)
    }
    certify()
    sections += 1
  } catch (error) {
    if (error.code !== 'LEASE_LOST') throw error
  }
  await lease.release().catch(unanswered)
}
await locks.close()
await backend.close()
process.send('sections ' + sections)
process.disconnect()
`

interface Certified {
  readonly lockName: string
  readonly token: bigint
  readonly owner: string
  readonly at: bigint
}

describe.each(childDrivers)('eight processes on one lock file, with $name,', (driver) => {
  let children: Children
  let root: string

  beforeAll(async () => {
    children = await openChildren()
    root = mkdtempSync(join(tmpdir(), 'holdfast-eight-'))
  })

  afterAll(async () => {
    await children.remove()
    rmSync(root, { recursive: true, force: true })
  })

  function start(file: string, notes: string, names: number): Child {
    const head = `import { createLocks } from './dist/index.js'\n${childHead({ file, notes })}`
    return children.run(head + hammer(names))
  }

  /** Kills one, stops two, continues them, starts another for the dead; again and again. */
  async function trouble(running: Child[], begin: () => Child): Promise<number> {
    let kills = 0
    const untilMs = performance.now() + RUN_MS
    while (performance.now() < untilMs || kills < KILLS_MIN) {
      const [first, second, victim, ...others] = running as [Child, Child, Child, ...Child[]]
      first.signal('SIGSTOP')
      second.signal('SIGSTOP')
      await sleep(STOP_MS / 2)
      victim.signal('SIGKILL')
      kills += 1
      await sleep(STOP_MS / 2)
      first.signal('SIGCONT')
      second.signal('SIGCONT')
      running.splice(0, running.length, ...others, first, second, begin())
    }
    return kills
  }

  it.each([
    ['one name', 1],
    ['five names', 5],
  ])('never overlap, and all of the living are served: %s', async (title, names) => {
    const file = join(root, `${title}.db`)
    const notes = join(root, `${title}.notes`)
    const begin = (): Child => start(file, notes, names)
    const running = Array.from({ length: PROCESSES }, begin)
    await Promise.all(running.map((child) => child.sent('ready')))
    const kills = await trouble(running, begin)
    // The last one to be started has had no time yet.
    await Promise.all(running.map((child) => child.sent('ready')))
    await sleep(1000)
    for (const child of running) child.send('end')
    const served = await Promise.all(running.map(sectionsOf))
    expect(kills).toBeGreaterThanOrEqual(KILLS_MIN)
    expect(Math.min(...served), `sections of the living: ${served}`).toBeGreaterThan(0)
    const moments = readFileSync(notes, 'utf8').split('\n').filter(Boolean).map(certified)
    // Four of each section, and each of the living has one.
    expect(moments.length).toBeGreaterThanOrEqual(4 * PROCESSES)
    expect(overlaps(moments)).toEqual([])
    await judgeRest(driver, file, names)
  })
})

/** What so many killed processes left: a file that is whole, and no name that is held for longer. */
async function judgeRest(driver: SqliteDriver, file: string, names: number): Promise<void> {
  const db = driver.open(file)
  expect(db.prepare('PRAGMA integrity_check').get()).toMatchObject({ integrity_check: 'ok' })
  const backend = sqliteBackendWith(systemSeams, db)
  const locks = createLocksWith(systemSeams, backend)
  for (let index = 0; index < names; index++) {
    const lease = await locks.acquire(`n${index}`, { waitMs: 20_000 })
    expect(await lease.release()).toBe('released')
  }
  await locks.close()
  await backend.close()
  db.close()
}

async function sectionsOf(child: Child): Promise<number> {
  const { code, stderr, messages } = { ...(await child.ended), messages: child.messages }
  expect(code, stderr).toBe(0)
  return Number(String(messages.at(-1)).replace('sections ', ''))
}

function certified(line: string): Certified {
  const { lockName, token, owner, at } = JSON.parse(line) as Record<keyof Certified, string>
  return { lockName, token: BigInt(token), owner, at: BigInt(at) }
}

/** In the order of time, the tokens of a name never go back: the older holder has ended by then. */
function overlaps(moments: readonly Certified[]): string[] {
  const latest = new Map<string, Certified>()
  const inTime = [...moments].sort((a, b) => (a.at < b.at ? -1 : 1))
  return inTime.flatMap((moment) => {
    const { lockName, token, owner, at } = moment
    const before = latest.get(lockName)
    if (before && token < before.token) {
      return [`${lockName}: ${token} was still held at ${at}, after ${before.token}`]
    }
    latest.set(lockName, moment)
    const isTwice = before?.token === token && before.owner !== owner
    return isTwice ? [`${lockName}: two owners were granted ${token}`] : []
  })
}
