/**
 * One at a time across processes: two terminals that both start `npm run lab` must not install
 * into the same folder at once.
 *
 * The lock is a folder with a note of who has it: process number, start time, boot and namespace.
 * It is made under another name and renamed into place, so it is never there without its note; the
 * rename fails while a lock stands there, because a folder that is not empty is not replaced.
 *
 * A holder that is gone is recognised by its note, not by age, so a slow install is never taken for
 * a dead one, and a process number that now belongs to somebody else does not keep a dead lock.
 *
 * A dead lock is renamed to a name made of its note. Of two processes that both saw it, the slower
 * one would move away the new lock of the faster one, but its rename fails: the name is taken. That
 * is why what was moved away stays for an hour.
 */
import { createHash, randomUUID } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SetupError, say } from './progress.mjs'

const POLL_MS = 200
/** Longer than any set-up seen by an order of magnitude: who waits that long should look himself. */
const WAIT_MS_MAX = 20 * 60_000
/** Between reading a note and acting on it lie microseconds, or the length of a pause. */
const MOVED_AWAY_MS = 60 * 60_000

/**
 * Runs `body` while no other process holds the lock folder of that path.
 *
 * @param options For tests: how long to wait, and how often to look.
 * @throws {SetupError} after 20 minutes of waiting.
 */
export async function withLockFolder(path, body, { waitMs = WAIT_MS_MAX, pollMs = POLL_MS } = {}) {
  mkdirSync(dirname(path), { recursive: true })
  const giveUpAtMs = performance.now() + waitMs
  let hasTold = false
  while (!tryLock(path)) {
    if (moveAwayIfDead(path)) continue
    if (!hasTold) say(`waiting for another set-up to finish (${path})`)
    hasTold = true
    if (performance.now() > giveUpAtMs) throw new SetupError(`another set-up still holds ${path}`)
    await sleep(pollMs)
  }
  const release = () => giveBack(path)
  process.once('exit', release)
  try {
    return await body()
  } finally {
    process.removeListener('exit', release)
    release()
    removeMovedAway(path)
  }
}

function tryLock(path) {
  const prepared = `${path}.${randomUUID()}`
  mkdirSync(prepared)
  writeFileSync(join(prepared, 'holder'), noteOf(process.pid))
  try {
    renameSync(prepared, path)
    return true
  } catch (error) {
    rmSync(prepared, { recursive: true })
    if (error.code === 'ENOTEMPTY' || error.code === 'EEXIST') return false
    throw error
  }
}

/**
 * Moved away whole and then removed: removed in place it would be an empty folder for a moment,
 * which somebody else's rename may replace, and the removal would go on in his lock.
 */
function giveBack(path) {
  const aside = `${path}.${randomUUID()}`
  try {
    renameSync(path, aside)
  } catch (error) {
    if (error.code === 'ENOENT') return // Somebody tidied up by hand.
    throw error
  }
  rmSync(aside, { recursive: true, force: true })
}

/** @returns true when there is reason to try again at once. */
function moveAwayIfDead(path) {
  let note
  try {
    note = readFileSync(join(path, 'holder'), 'utf8')
  } catch {
    return !existsSync(path) // Given back meanwhile; else a folder of somebody else's: wait.
  }
  return !isHolderAlive(note) && moveAway(path, note)
}

/**
 * Moves away the dead lock with that note, and no other. Exported for its test.
 *
 * @returns false when somebody else has moved it and there is a new lock in its place.
 */
export function moveAway(path, note) {
  try {
    renameSync(path, movedAwayName(path, note))
    return true
  } catch (error) {
    if (!['ENOENT', 'ENOTEMPTY', 'EEXIST'].includes(error.code)) throw error
    return error.code === 'ENOENT'
  }
}

function movedAwayName(path, note) {
  return `${path}.dead-${createHash('sha256').update(note).digest('hex').slice(0, 16)}`
}

function removeMovedAway(path) {
  const prefix = `${basename(path)}.dead-`
  for (const name of readdirSync(dirname(path)).filter((entry) => entry.startsWith(prefix))) {
    const folder = join(dirname(path), name)
    const { ctimeMs } = statSync(folder, { throwIfNoEntry: false }) ?? {}
    if (ctimeMs !== undefined && Date.now() - ctimeMs > MOVED_AWAY_MS) {
      rmSync(folder, { recursive: true, force: true })
    }
  }
}

/** `<pid> <start time in ticks> <boot id> <namespace>`, `unknown` where there is no /proc. */
export function noteOf(pid) {
  const { bootId, namespace } = numberSpace()
  return `${pid} ${startTicksOf(pid) ?? 'unknown'} ${bootId} ${namespace}`
}

/** False only when it is certain that the process of that note does not run any more. */
export function isHolderAlive(note) {
  const [pid, startTicks, bootId, namespace] = note.split(' ')
  const here = numberSpace()
  if (bootId !== here.bootId) return false
  // The numbers of another container say nothing here.
  if (namespace !== here.namespace) return true
  if (startTicks === 'unknown') return hasProcess(Number(pid))
  return startTicksOf(Number(pid)) === startTicks
}

function numberSpace() {
  try {
    return {
      bootId: readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim(),
      namespace: readlinkSync('/proc/self/ns/pid'),
    }
  } catch {
    return { bootId: 'unknown', namespace: 'unknown' }
  }
}

/** proc(5), /proc/pid/stat, field 22; null for a process that is gone or has ended. */
function startTicksOf(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return fields[0] === 'Z' || fields[0] === 'X' ? null : fields[19]
  } catch {
    return null
  }
}

function hasProcess(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
