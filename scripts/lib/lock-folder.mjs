/**
 * One at a time across processes: two terminals that both start `npm run lab` must not install
 * into the same folder at once.
 *
 * The lock is a folder, because `mkdir` either makes it or fails. In it stands who has it: process
 * number and start time. A holder that is gone is recognised by these, not by age, so a slow
 * install is never taken for a dead one, and a number that the kernel gave to somebody else does
 * not keep a dead lock alive.
 *
 * A stale lock is taken away by renaming it to a name that only one process can get: of two that
 * both see a dead holder, the second one's rename fails or finds a living holder's lock, which it
 * puts back.
 */
import { mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { SetupError, say } from './progress.mjs'

const POLL_MS = 200
/** Longer than any set-up seen by an order of magnitude: who waits that long should look himself. */
const WAIT_MS_MAX = 20 * 60_000
/** Between `mkdir` and the note of the owner lie microseconds; a folder without one this old is dead. */
const UNSIGNED_MS_MAX = 10_000

/** Runs `body` while no other process holds the lock folder of that path. */
export async function withLockFolder(path, body) {
  mkdirSync(dirname(path), { recursive: true })
  const giveUpAtMs = Date.now() + WAIT_MS_MAX
  let hasTold = false
  while (!tryLock(path)) {
    const holder = readHolder(path)
    if (holder === 'dead') {
      takeAway(path)
      continue
    }
    if (!hasTold) say(`waiting for another set-up to finish (lock: ${path})`)
    hasTold = true
    if (Date.now() > giveUpAtMs) throw new SetupError(`another set-up still holds ${path}`)
    await sleep(POLL_MS)
  }
  const release = () => rmSync(path, { recursive: true, force: true })
  process.once('exit', release)
  try {
    return await body()
  } finally {
    process.removeListener('exit', release)
    release()
  }
}

function tryLock(path) {
  try {
    mkdirSync(path)
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
  writeFileSync(join(path, 'holder'), holderText(process.pid))
  return true
}

/** `alive`, `dead`, or `gone` when the lock was given back meanwhile. */
function readHolder(path) {
  let text = ''
  try {
    text = readFileSync(join(path, 'holder'), 'utf8')
  } catch {
    // Not signed yet, or gone.
  }
  if (text !== '') return holderText(Number(text.split(' ')[0])) === text ? 'alive' : 'dead'
  try {
    return Date.now() - statSync(path).mtimeMs > UNSIGNED_MS_MAX ? 'dead' : 'alive'
  } catch {
    return 'gone'
  }
}

function takeAway(path) {
  const aside = `${path}.stale-${process.pid}`
  try {
    renameSync(path, aside)
  } catch (error) {
    if (error.code === 'ENOENT') return
    throw error
  }
  // Somebody was faster, and what we moved is the new holder's lock.
  if (readHolder(aside) === 'alive') renameSync(aside, path)
  else rmSync(aside, { recursive: true, force: true })
}

/** `<pid> <start time in ticks> <boot id>`; another text, or an empty one, when it does not run. */
export function holderText(pid) {
  if (!Number.isSafeInteger(pid) || pid <= 0) return ''
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    if (fields[0] === 'Z' || fields[0] === 'X') return ''
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
    return `${pid} ${fields[19]} ${bootId}`
  } catch {
    return isAlive(pid) ? `${pid} unknown unknown` : ''
  }
}

/** Where there is no /proc: the number alone has to do. */
function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}
