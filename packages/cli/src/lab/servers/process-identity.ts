/**
 * Who a process is, beyond its number.
 *
 * The kernel gives a process number to somebody else as soon as the first owner is gone, so a
 * number that was written down is no permission to end anything. A number together with the start
 * time in clock ticks since boot (proc(5), /proc/pid/stat, field 22) names one process of one boot
 * for good; the boot id and the process-number namespace say which boot and whose numbers.
 *
 * Where there is no /proc the answer is always "not known", and nobody is ended on it.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

/** One process as the kernel shows it. */
export interface ProcessEntry {
  readonly pid: number
  readonly parentPid: number
  /** Clock ticks since boot at which it started, decimal digits. */
  readonly startTicks: string
  /** False for a zombie: it has ended and only waits to be read by its parent. */
  readonly isRunning: boolean
}

/** Reads one process; null when there is none of that number, or no /proc. */
export function readProcess(pid: number): ProcessEntry | null {
  let stat: string
  try {
    stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  } catch {
    return null
  }
  // The second field is the command in brackets and may itself hold spaces and brackets: count
  // from the last closing one. What follows begins with field 3.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const [state, parentPid, startTicks] = [fields[0], fields[1], fields[19]]
  if (state === undefined || parentPid === undefined || startTicks === undefined) return null
  return {
    pid,
    parentPid: Number(parentPid),
    startTicks,
    isRunning: state !== 'Z' && state !== 'X',
  }
}

/** True while the very process that started at `startTicks` runs under this number. */
export function isSameProcess(pid: number, startTicks: string): boolean {
  const entry = readProcess(pid)
  return entry?.isRunning === true && entry.startTicks === startTicks
}

/** Every running descendant of a process, parents before children. */
export function descendantsOf(pid: number): ProcessEntry[] {
  const byParent = new Map<number, ProcessEntry[]>()
  for (const entry of allProcesses()) {
    const siblings = byParent.get(entry.parentPid)
    if (siblings === undefined) byParent.set(entry.parentPid, [entry])
    else siblings.push(entry)
  }
  const found: ProcessEntry[] = []
  const queue = [pid]
  for (let parent = queue.shift(); parent !== undefined; parent = queue.shift()) {
    for (const child of byParent.get(parent) ?? []) {
      found.push(child)
      queue.push(child.pid)
    }
    // A parent's children are taken once, so a snapshot torn by a reused number cannot loop.
    byParent.delete(parent)
  }
  return found.filter((entry) => entry.isRunning)
}

function allProcesses(): ProcessEntry[] {
  let names: string[]
  try {
    names = readdirSync('/proc')
  } catch {
    return []
  }
  return names
    .filter((name) => /^\d+$/.test(name))
    .map((name) => readProcess(Number(name)))
    .filter((entry) => entry !== null)
}

/** This boot and this process-number namespace, as a text fit for a file name; null without /proc. */
export function numberSpace(): { readonly bootId: string; readonly namespace: string } | null {
  try {
    const bootId = readFileSync('/proc/sys/kernel/random/boot_id', 'latin1').trim()
    const namespace = readlinkSync('/proc/self/ns/pid').replace(/\D/g, '')
    return { bootId: bootId.slice(0, 8), namespace }
  } catch {
    return null
  }
}

/** Sends a signal if that very process still runs. Being gone already is success. */
export function signalProcess(pid: number, startTicks: string, signal: NodeJS.Signals): void {
  if (!isSameProcess(pid, startTicks)) return
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
