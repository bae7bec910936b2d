/**
 * A foreign program that has the file's write lock: what makes a file silent, slow or hung to all
 * others. Before it does anything else it reads, under that lock, how long each entry lives yet: from
 * then on none can be renewed, so that is the store's own word of when each TTL ends.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { createLocks } from 'holdfast'
import { sqliteBackend } from 'holdfast/sqlite'
import { monotonicUs } from '../../time.ts'
import type { Job } from '../../trial.ts'
import type { Queryable } from '../ground/database.ts'
import { openHandLocks, takeByHand } from '../ground/hand-locks.ts'
import { handEntry, lockEntry } from '../ground/lock-file.ts'
import { databaseOn, openFile, queryableOn } from '../ground/sqlite-database.ts'
import type { OpenDatabase } from '../ground/sqlite-driver.ts'
import type { HeldLock } from './holder.ts'
import type { StoreFaultName } from './scenario.ts'
import { TTL_MS } from './times.ts'

export interface KeeperInput {
  readonly path: string
  readonly fault: StoreFaultName
  readonly isByHand: boolean
  readonly locks: readonly HeldLock[]
}

/** For its own BEGIN: the holders are at the file as well. */
const BEGIN_MS_MAX = 5_000
/** Past the end of the last TTL. */
const AFTER_TTL_MS = 100
/** Of the slow file: so long others may get in between. */
const GAP_MS = 10
const TICK_MS = 50
const OTHERS_TTL_MS = 60_000

/** One run of the keeper. */
interface Keeping {
  readonly job: Job
  readonly input: KeeperInput
  readonly db: OpenDatabase
  readonly tx: Queryable
}

export async function keepFile(job: Job): Promise<void> {
  const input = job.input as KeeperInput
  const db = openFile(input.path, 'keeper')
  const keeping = { job, input, db, tx: queryableOn(db) }
  await openHandLocks(databaseOn(db))
  db.exec(`CREATE TABLE IF NOT EXISTS kept (times integer); PRAGMA busy_timeout = ${BEGIN_MS_MAX}`)
  await job.mark('ready')
  await job.until('fail')
  db.exec('BEGIN EXCLUSIVE')
  const leftMs = await readEntries(keeping)
  // So that its COMMIT is one, after which nobody's copy of the file is the newest.
  db.exec('INSERT INTO kept VALUES (1)')
  await job.mark('keeping')
  await ACTS[input.fault](keeping, leftMs)
  db.close()
}

const ACTS: Readonly<Record<StoreFaultName, (keeping: Keeping, leftMs: number) => Promise<void>>> =
  {
    silent: keepPastTtl,
    slow: keepInBursts,
    // The lab stops this process now, and ends it later.
    hung: ({ job }) => job.until('over'),
    dead: letGo,
  }

/** @returns the longest that any of them lives yet. */
async function readEntries({ job, input, tx }: Keeping): Promise<number> {
  const entryOf = input.isByHand ? handEntry : lockEntry
  let longestMs = 0
  for (const { name, round } of input.locks) {
    const atUs = monotonicUs()
    const entry = await entryOf(tx, name)
    const leftMs = entry?.leftMs ?? 0
    const answer = entry === null ? 'nobody' : 'held'
    job.note('entry', atUs, { answer, value: leftMs, detail: entry?.owner ?? '' }, round)
    longestMs = Math.max(longestMs, leftMs)
  }
  return longestMs
}

/** Then it, or another one, asks for the locks: nobody can have renewed them. */
async function keepPastTtl(keeping: Keeping, leftMs: number): Promise<void> {
  const { job, input, db, tx } = keeping
  await sleep(leftMs + AFTER_TTL_MS)
  if (input.isByHand) {
    for (const lock of input.locks) {
      await ask(job, lock, () => takeByHand(tx, lock.name, 'somebody-else', OTHERS_TTL_MS))
    }
    db.exec('COMMIT')
    return
  }
  db.exec('COMMIT')
  const locks = createLocks(sqliteBackend(db))
  for (const lock of input.locks) {
    await ask(job, lock, async () => {
      const lease = await locks.tryAcquire(lock.name, { ttlMs: OTHERS_TTL_MS, renew: false })
      return lease !== null
    })
  }
}

async function ask(job: Job, lock: HeldLock, take: () => Promise<boolean>): Promise<void> {
  const calledAtUs = monotonicUs()
  const answer = (await take()) ? 'granted' : 'refused'
  job.note('other', calledAtUs, { answer }, lock.round)
}

/** Long transactions, one after another. */
async function keepInBursts({ job, db }: Keeping): Promise<void> {
  while (!job.hasReached('over')) {
    const untilMs = performance.now() + 2 * TTL_MS
    while (performance.now() < untilMs && !job.hasReached('over')) await sleep(TICK_MS)
    db.exec('COMMIT')
    if (job.hasReached('over')) return
    await sleep(GAP_MS)
    db.exec('BEGIN EXCLUSIVE; INSERT INTO kept VALUES (1)')
  }
}

/** The lab has overwritten the file: its COMMIT makes everybody read it again. */
async function letGo({ job, db }: Keeping): Promise<void> {
  await job.until('overwritten')
  db.exec('COMMIT')
  await job.mark('let-go')
  await job.until('over')
}
