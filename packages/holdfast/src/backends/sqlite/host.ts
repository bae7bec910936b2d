/**
 * What a process must know of its host, so that all processes of one file count on one clock and know
 * each other's dead.
 *
 * The clock counts from the boot of the kernel, suspended time included, and the file carries the id of
 * that boot: whoever opens it first after another boot clears it, because then every entry is over. A
 * wall clock that is set, or steps, changes nothing. Its grain is 10 ms and a reading is never ahead, so an entry that must last `ttlMs` from
 * a moment ends one grain later than a reading at that moment says. Where the kernel has no boot id
 * (anything but Linux) it is the wall clock, and nothing is cleared.
 *
 * A process is known by pid, start time and pid namespace. From another namespace its pid means
 * nothing: it counts as alive until its heartbeat ends.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import type { Seams } from '../../core/seams.ts'

/** `os.uptime()` counts in steps of 10 ms. */
export const CLOCK_GRAIN_MS = 10

const BOOT_ID = /^[0-9a-f-]{36}$/
/** Stands where the kernel's boot id would: entries of both kinds never meet in one file. */
const WALL = 'wall'

export interface ProcessId {
  readonly pid: number
  /** In ticks since boot; tells two processes of one pid apart. Empty: not known. */
  readonly startedAt: string
  /** Empty: not known. */
  readonly pidNamespace: string
}

export interface Host extends ProcessId {
  readonly bootId: string
  /** Processes whose uptimes do not compare have different ones. */
  readonly clockId: string
}

export function thisHost(): Host {
  const bootId = text(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
  const pidNamespace = text(() => readlinkSync('/proc/self/ns/pid'))
  return {
    bootId: process.platform === 'linux' && BOOT_ID.test(bootId) ? bootId : WALL,
    clockId: clockId(pidNamespace),
    pid: process.pid,
    startedAt: statOf('self')?.startedAt ?? '',
    pidNamespace,
  }
}

/**
 * A time namespace has an uptime of its own, and so has a container to which lxcfs shows the age of
 * its own first process.
 */
function clockId(pidNamespace: string): string {
  const timeNamespace = text(() => readlinkSync('/proc/self/ns/time'))
  const mounts = text(() => readFileSync('/proc/self/mountinfo', 'utf8'))
  const isFaked = mounts.includes(' /proc/uptime ')
  return isFaked ? `${timeNamespace} lxcfs ${pidNamespace}` : timeNamespace
}

/** Milliseconds on the clock that entries end by. */
export function hostMs({ bootId }: Host, seams: Seams): number {
  return bootId === WALL ? seams.wallMs() : seams.bootMs()
}

/** Whether what ends entries is the boot clock. */
export function hasBootClock({ bootId }: Host): boolean {
  return bootId !== WALL
}

/** Whether a process of the same boot is known to be over. */
export function isDead(host: Host, { pid, startedAt: began, pidNamespace }: ProcessId): boolean {
  if (pidNamespace === '' || pidNamespace !== host.pidNamespace) return false
  if (!exists(pid)) return true
  const now = statOf(String(pid))
  // Not readable: of another user, where /proc hides those.
  if (now === null) return false
  return now.isOver || (began !== '' && now.startedAt !== began)
}

function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

/** Fields 3 and 22; the name before them, in brackets, may hold blanks and brackets. */
function statOf(process: string): { startedAt: string; isOver: boolean } | null {
  const stat = text(() => readFileSync(`/proc/${process}/stat`, 'utf8'))
  const [state, ...fields] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const startedAt = fields[18]
  // A process that was killed stays as a zombie until its parent asks for it.
  return startedAt === undefined ? null : { startedAt, isOver: state === 'Z' || state === 'X' }
}

function text(read: () => string): string {
  try {
    return read()
  } catch {
    // Not Linux, or hidden from us: then it is not known.
    return ''
  }
}
