/** Locks of one host: files in a folder of their own, on the disk that has the temporary folder. */
import { mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { contend } from '../contend.ts'
import type { Locker, Release } from '../contestant.ts'
import { type FileContestant, fileContestants, PROPER_LOCKFILE } from '../contestants/files.ts'
import { type Entry, type Failure, failureOf } from '../measure.ts'
import { type Arena, learnMsOf, slicesOf } from './contenders.ts'
import { pairsSlice } from './pairs.ts'
import { ContenderProcesses, CROWDS_OF_FILES } from './processes.ts'

/** Of one slice: about as long as the slices of the other groups. */
const PAIRS = { synced: 20, unsynced: 200 } as const
/** Long enough to be granted what is held, if it is; longer proves no more. */
const REFUSED_MS = 50
const TMPFS = 0x01021994
const COMPARED_WITH = 'files'

const NOTES = [
  'NORMAL: a power cut or a crash of the system may take the last grants back, and their tokens can be given again',
  'proper-lockfile: no token, and nothing is on the disk before it is answered',
] as const
const IN_MEMORY =
  'the temporary folder is in memory: nothing waits for a disk, and FULL costs nothing'

/** Put under the figures: what a table cannot say. */
export function fileNotes(): string[] {
  const isInMemory = statfsSync(tmpdir()).type === TMPFS
  return [...NOTES, ...(isInMemory ? [IN_MEMORY] : [])]
}

export interface FileBed {
  readonly entries: readonly Entry[]
  readonly failures: readonly Failure[]
  close(): Promise<void>
}

/** @throws MissingDriverError */
export async function openFileBed(
  group: 'sqlite' | 'sqlite-8-processes',
  contendMs: number,
  withPeers: boolean,
): Promise<FileBed> {
  const contestants = fileContestants().filter(({ who }) => withPeers || who !== PROPER_LOCKFILE)
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-'))
  const processes = group === 'sqlite' ? null : new ContenderProcesses(CROWDS_OF_FILES)
  const end = (): void => {
    processes?.end()
    rmSync(folder, { recursive: true, force: true })
  }
  // A signal ends the bench by an exit.
  process.once('exit', end)
  const close = async (): Promise<void> => {
    process.removeListener('exit', end)
    end()
  }
  const entries: Entry[] = []
  const failures: Failure[] = []
  const add = async (contestant: FileContestant, entry: Promise<Entry>): Promise<void> => {
    try {
      entries.push(await entry)
    } catch (error) {
      failures.push(failureOf(contestant, error))
    }
  }
  for (const contestant of contestants) {
    const isFirst = contestant === contestants[0]
    if (processes === null) {
      await add(contestant, filePairsEntry(contestant, folder, isFirst))
      continue
    }
    if (isFirst) await add(contestant, aloneEntry(contestant, folder, contendMs))
    await add(contestant, crowdEntry(contestant, folder, contendMs, processes))
  }
  return { entries, failures, close }
}

/** @throws when it does not lock. */
export async function filePairsEntry(
  contestant: FileContestant,
  folder: string,
  isReference: boolean,
): Promise<Entry> {
  const locker = await contestant.connect(folder)
  const pairs = contestant.isSynced ? PAIRS.synced : PAIRS.unsynced
  try {
    await checkThatItLocks(contestant, folder)
    await pairsSlice(locker, 1, pairs)
  } catch (error) {
    await locker.close()
    throw error
  }
  return {
    ...labelOf(contestant),
    inFlight: 1,
    isReference,
    slice: () => pairsSlice(locker, 1, pairs),
    close: () => locker.close(),
  }
}

/** What is measured must be a lock: a second one is not granted it while it is held, and is after. */
async function checkThatItLocks(contestant: FileContestant, folder: string): Promise<void> {
  const lockers: Locker[] = []
  try {
    for (let opened = 0; opened < 2; opened++) lockers.push(await contestant.connect(folder))
    const [first, second] = lockers as [Locker, Locker]
    const release = await first.acquire('bench-check')
    let heldByTwo = false
    let isHeld = true
    const next = second.acquire('bench-check').then((given: Release) => {
      heldByTwo = isHeld
      return given
    })
    // Until it is asked for below.
    next.catch(() => undefined)
    await sleep(REFUSED_MS)
    isHeld = false
    await release()
    await (await next)()
    if (heldByTwo) throw new Error('2 held one name at once')
  } finally {
    for (const locker of lockers) await locker.close()
  }
}

/** The reference of the crowd: one that never waits. */
async function aloneEntry(
  contestant: FileContestant,
  folder: string,
  contendMs: number,
): Promise<Entry> {
  const locker = await contestant.connect(folder)
  const alone = { ...contestant, variant: `${contestant.variant}, alone` }
  return arenaOfFiles(alone, contendMs, true, {
    workers: 1,
    contend: (endMs, turn) => contend(locker, { workers: 1, firstWorker: 0, endMs, turn }),
    close: () => locker.close(),
  })
}

async function crowdEntry(
  contestant: FileContestant,
  folder: string,
  contendMs: number,
  processes: ContenderProcesses,
): Promise<Entry> {
  const arena = await processes.arena(contestant, folder)
  return arenaOfFiles(contestant, contendMs, false, arena)
}

async function arenaOfFiles(
  contestant: FileContestant,
  contendMs: number,
  isReference: boolean,
  arena: Arena,
): Promise<Entry> {
  const slice = slicesOf(arena)
  try {
    await slice(learnMsOf(arena))
  } catch (error) {
    await arena.close()
    throw error
  }
  return {
    ...labelOf(contestant),
    inFlight: arena.workers,
    isReference,
    slice: () => slice(contendMs),
    close: () => arena.close(),
  }
}

function labelOf({ who, variant, client, isOwnerChecked }: FileContestant) {
  return { who, variant, client, isOwnerChecked, comparedWith: COMPARED_WITH }
}
