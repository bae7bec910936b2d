/**
 * The arms in which a file fails under its holders: no network stands between them and it, and what
 * fails is the file, or whoever else has it. In each pass a file of its own and up to twenty locks,
 * held by two processes; then the fault.
 */
import { closeSync, existsSync, fstatSync, fsyncSync, openSync, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '../../addresses.ts'
import { monotonicUs } from '../../time.ts'
import type { Trial, TrialWorker } from '../../trial.ts'
import { lockEntry, lockFileIn } from '../ground/lock-file.ts'
import { queryableOn } from '../ground/sqlite-database.ts'
import { sqliteDriver } from '../ground/sqlite-driver.ts'
import type { FileStore } from './file-holders.ts'
import type { KeeperInput } from './file-keeper.ts'
import type { HeldLock } from './holder.ts'
import { locksOf, startHolders, sumOf, untilCounted } from './passes.ts'
import type { StoreFaultName } from './scenario.ts'
import { TTL_MS, WATCH_AFTER_MS } from './times.ts'

/** Two processes; both have the one driver that this Node has. */
export const FILE_CLIENTS: readonly string[] = ['first process', 'second process']
const GARBAGE = 0xa5
const CHUNK_BYTES = 65_536

export async function loseFile(
  trial: Trial,
  fault: StoreFaultName,
  program: 'hold' | 'holdByHand',
): Promise<null> {
  await untilCounted(trial, (first, count) =>
    onePass(trial, fault, program, locksOf(trial, first, count, TTL_MS)),
  )
  return null
}

/** @returns how many holders were running all the time, so that their rounds count. */
async function onePass(
  trial: Trial,
  fault: StoreFaultName,
  program: 'hold' | 'holdByHand',
  locks: readonly HeldLock[],
): Promise<number> {
  const store = fileOf(trial, locks)
  const keeper = await trial.startWorker('keeper')
  const input: KeeperInput = { ...store, fault, isByHand: program === 'holdByHand', locks }
  const keeping = keeper.run('keepFile', 0, input)
  await keeper.until('ready')
  const holders = { clients: FILE_CLIENTS, store, ttlMs: TTL_MS }
  const { workers, work } = await startHolders(trial, holders, locks, program)
  // Long enough for a renewal of each; the fault comes at any moment of the next one.
  await sleep(TTL_MS * (0.4 + 0.4 * trial.draw(`fault ${locks[0]?.round}`)))
  const calledAtUs = monotonicUs()
  keeper.mark('fail')
  await keeper.until('keeping')
  await apply(fault, keeper, store)
  for (const { round } of locks) trial.note(round, 'fault', calledAtUs, { answer: 'began' })
  if (fault === 'dead') await tryFile(trial, store, locks)
  await sleep(TTL_MS + WATCH_AFTER_MS)
  for (const worker of workers) worker.mark('over')
  const running = await Promise.all(work)
  await endKeeper(keeper, keeping, fault)
  await Promise.all([...workers, keeper].map((worker) => worker.kill()))
  return sumOf(running)
}

/** A file for each pass: what one fault leaves is nothing to the next. */
export function fileOf(trial: Trial, locks: readonly HeldLock[]): FileStore {
  return { path: lockFileIn(within(trial.addresses, `pass-${locks[0]?.round}`)) }
}

async function apply(
  fault: StoreFaultName,
  keeper: TrialWorker,
  { path }: FileStore,
): Promise<void> {
  if (fault === 'hung') await keeper.freeze()
  if (fault !== 'dead') return
  overwrite(path)
  keeper.mark('overwritten')
  await keeper.until('let-go')
}

/** The one that stands still in its transaction is ended as it stands, by its kill. */
async function endKeeper(
  keeper: TrialWorker,
  keeping: Promise<unknown>,
  fault: StoreFaultName,
): Promise<void> {
  if (fault === 'hung') return
  keeper.mark('over')
  await keeping
}

/** Whether anybody who comes now can read what is left. */
async function tryFile(
  trial: Trial,
  { path }: FileStore,
  locks: readonly HeldLock[],
): Promise<void> {
  const triedAtUs = monotonicUs()
  const db = sqliteDriver().open(path)
  for (const { name, round } of locks) {
    const outcome = await lockEntry(queryableOn(db), name).then(
      () => ({ answer: 'readable' }),
      (error: unknown) => ({ answer: 'unusable', detail: String(error) }),
    )
    trial.note(round, 'try', triedAtUs, outcome)
  }
  db.close()
}

/** As by a copy that went to the wrong place: the file and its log, in full length. */
function overwrite(path: string): void {
  for (const name of [path, `${path}-wal`]) {
    if (!existsSync(name)) continue
    const fd = openSync(name, 'r+')
    const garbage = Buffer.alloc(CHUNK_BYTES, GARBAGE)
    const { size } = fstatSync(fd)
    for (let at = 0; at < size; at += CHUNK_BYTES) {
      writeSync(fd, garbage, 0, Math.min(CHUNK_BYTES, size - at), at)
    }
    fsyncSync(fd)
    closeSync(fd)
  }
}
