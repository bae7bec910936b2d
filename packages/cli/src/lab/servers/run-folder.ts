/**
 * Every server and every folder of one process (a run), written down so that nothing outlives it.
 *
 *     <tmp>/holdfast-<uid>/                      0711, ours
 *       run-<pid>-<start>-<namespace>-<boot>/    one process: its name says exactly which one
 *         server-<pid>.json                      one running server: {pid, startTicks, endSignal}
 *         redis-x1Y2z3/                          its folder: data and log
 *
 * Three ways lead to the end of a run. `stop()` of each server is the ordinary one. When the
 * process exits, be it by `process.exit`, an uncaught exception or a signal, its servers are ended
 * and its folders removed before it is gone. When it was killed, or lost power, the next run that
 * starts a server sweeps what is left. The sweep ends a process only if number and start time are
 * those that were written down: the number alone may belong to somebody else by now.
 *
 * A signal (SIGINT, SIGTERM, SIGHUP) ends the servers at once only where this module is the only
 * one that listens for it; it then lets the signal end the process as if nobody had listened. A
 * program with a handler of its own decides itself, and its servers end when it exits.
 */
import {
  chmodSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  descendantsOf,
  isSameProcess,
  numberSpace,
  type ProcessEntry,
  readProcess,
  signalProcess,
} from './process-identity.ts'

/** A server as it is written down. */
export interface ServerRecord {
  readonly pid: number
  readonly startTicks: string
  /** What makes it end at once and take its children along. */
  readonly endSignal: NodeJS.Signals
}

/** How long an asked-for end may take before SIGKILL follows: PostgreSQL ends its children first. */
const END_GRACE_MS = 3_000
const POLL_MS = 10

const recordsByFolder = new Map<string, ServerRecord | null>()
let isWatchingExit = false

/** A new folder for one server; it is removed with the run at the latest. */
export function createServerFolder(prefix: string): string {
  watchExit()
  const folder = mkdtempSync(join(runFolder(), `${prefix}-`))
  // Another uid than ours may run the server and must be able to reach what lies in here.
  chmodSync(folder, 0o711)
  recordsByFolder.set(folder, null)
  return folder
}

/** Writes down the process that runs in a folder; call it in the same turn as the spawn. */
export function recordServer(folder: string, record: ServerRecord): void {
  forgetServer(folder)
  const path = recordPath(record)
  writeFileSync(`${path}.new`, JSON.stringify(record))
  renameSync(`${path}.new`, path) // A sweep must never read half a record.
  recordsByFolder.set(folder, record)
}

/** The process in this folder has ended; the folder stays. */
export function forgetServer(folder: string): void {
  const record = recordsByFolder.get(folder)
  if (record) rmSync(recordPath(record), { force: true })
  recordsByFolder.set(folder, null)
}

/** Removes a folder of {@link createServerFolder} whose server has ended. */
export function removeServerFolder(folder: string): void {
  forgetServer(folder)
  rmSync(folder, REMOVAL)
  recordsByFolder.delete(folder)
  if (recordsByFolder.size === 0) removeIfEmpty(runFolder())
}

/**
 * Ends servers and removes folders that runs left behind which were killed or lost power.
 * Safe to call at any time and by several processes at once: runs that still live are left alone.
 *
 * @returns how many dead runs were swept.
 */
export async function sweepDeadRuns(): Promise<number> {
  const here = numberSpace()
  if (here === null) return 0
  const base = baseFolder()
  let sweptCount = 0
  for (const name of readdirSync(base)) {
    const run = /^run-(\d+)-(\d+)-(\d+)-([0-9a-f]+)$/.exec(name)
    if (run === null) continue
    const [, pid, startTicks, namespace, bootId] = run as unknown as string[]
    const isThisBoot = bootId === here.bootId
    // Numbers of another namespace say nothing here: its processes may live and not be visible.
    if (isThisBoot && namespace !== here.namespace) continue
    if (isThisBoot && isSameProcess(Number(pid), startTicks ?? '')) continue
    const folder = join(base, name)
    if (isThisBoot) await endAll(readRecords(folder))
    rmSync(folder, REMOVAL)
    sweptCount++
  }
  return sweptCount
}

/** Ends servers of a process that is gone; whoever is not the recorded process is left alone. */
async function endAll(records: readonly ServerRecord[]): Promise<void> {
  const ending = beginEnd(records)
  const polls = Math.ceil(END_GRACE_MS / POLL_MS)
  for (let poll = 0; poll < polls && ending.some(isStillRunning); poll++) await sleep(POLL_MS)
  for (const entry of ending) signalProcess(entry.pid, entry.startTicks, 'SIGKILL')
}

/** The same without an event loop, for the last moments of this process. */
function endAllSync(records: readonly ServerRecord[]): void {
  const ending = beginEnd(records)
  const polls = Math.ceil(END_GRACE_MS / POLL_MS)
  const cell = new Int32Array(new SharedArrayBuffer(4))
  for (let poll = 0; poll < polls && ending.some(isStillRunning); poll++) {
    Atomics.wait(cell, 0, 0, POLL_MS)
  }
  for (const entry of ending) signalProcess(entry.pid, entry.startTicks, 'SIGKILL')
}

/** Asks every recorded server to end, and says who must be gone in the end, children included. */
function beginEnd(records: readonly ServerRecord[]): Pick<ProcessEntry, 'pid' | 'startTicks'>[] {
  const living = records.filter((record) => isSameProcess(record.pid, record.startTicks))
  const ending: Pick<ProcessEntry, 'pid' | 'startTicks'>[] = []
  for (const { pid, startTicks, endSignal } of living) {
    const children = descendantsOf(pid)
    signalProcess(pid, startTicks, endSignal)
    // A frozen process takes its signals when it is woken; woken twice does no harm.
    for (const entry of [{ pid, startTicks }, ...children]) {
      signalProcess(entry.pid, entry.startTicks, 'SIGCONT')
      ending.push(entry)
    }
  }
  return ending
}

function isStillRunning({ pid, startTicks }: Pick<ProcessEntry, 'pid' | 'startTicks'>): boolean {
  return isSameProcess(pid, startTicks)
}

/** What can be read of a dead run; another sweep may be removing it at the same time. */
function readRecords(folder: string): ServerRecord[] {
  try {
    return readdirSync(folder)
      .filter((name) => /^server-\d+\.json$/.test(name))
      .map((name) => readRecord(join(folder, name)))
      .filter((record) => record !== null)
  } catch {
    return []
  }
}

/** Null for a record that a full disk or a power cut spoiled. */
function readRecord(path: string): ServerRecord | null {
  try {
    const { pid, startTicks, endSignal } = JSON.parse(readFileSync(path, 'utf8'))
    const isWhole =
      Number.isSafeInteger(pid) && typeof startTicks === 'string' && endSignal in constants.signals
    return isWhole ? { pid, startTicks, endSignal } : null
  } catch {
    return null
  }
}

const REMOVAL = { recursive: true, force: true, maxRetries: 5, retryDelay: 50 } as const

function recordPath(record: ServerRecord): string {
  return join(runFolder(), `server-${record.pid}.json`)
}

function runFolder(): string {
  const startTicks = readProcess(process.pid)?.startTicks ?? '0'
  const { bootId, namespace } = numberSpace() ?? { bootId: '0', namespace: '0' }
  const folder = join(baseFolder(), `run-${process.pid}-${startTicks}-${namespace}-${bootId}`)
  mkdirSync(folder, { recursive: true, mode: 0o711 })
  return folder
}

/** `<tmp>/holdfast-<uid>`. @throws when it exists and is somebody else's. */
function baseFolder(): string {
  const uid = process.getuid?.() ?? 0
  const folder = join(reachableTmp(), `holdfast-${uid}`)
  mkdirSync(folder, { recursive: true, mode: 0o711 })
  const stat = lstatSync(folder)
  // The name can be guessed, and the folder above is everybody's: what somebody else put there
  // could tell the sweep lies, or lead it elsewhere.
  if (!stat.isDirectory() || (process.getuid !== undefined && stat.uid !== uid)) {
    throw new Error(`${folder} belongs to somebody else: remove it, or set TMPDIR`)
  }
  chmodSync(folder, 0o711)
  return folder
}

/**
 * The folder for temporary files; `/tmp` where root's own is closed to other users, because
 * PostgreSQL then runs under another uid and must reach its data.
 */
function reachableTmp(): string {
  const tmp = resolve(tmpdir())
  if (process.getuid?.() !== 0) return tmp
  for (let folder = tmp; folder !== dirname(folder); folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return '/tmp'
  }
  return tmp
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder)
  } catch {
    // Another instance of this module in the same process has its servers there.
  }
}

function watchExit(): void {
  if (isWatchingExit) return
  isWatchingExit = true
  process.on('exit', endRunSync)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    const onSignal = (): void => {
      if (process.listenerCount(signal) > 1) return
      endRunSync()
      process.removeListener(signal, onSignal)
      process.kill(process.pid, signal)
    }
    process.on(signal, onSignal)
  }
}

/** Nothing in here may throw: this is the last that the process does. */
function endRunSync(): void {
  try {
    endAllSync([...recordsByFolder.values()].filter((record) => record !== null))
    for (const folder of [...recordsByFolder.keys()]) removeServerFolder(folder)
  } catch (error) {
    process.stderr.write(`holdfast: could not tidy up after the run: ${String(error)}\n`)
  }
}
