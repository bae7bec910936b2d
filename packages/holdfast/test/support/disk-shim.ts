/** A program whose disk a test watches and breaks; what that means is in disk-shim-source.ts. */
import {
  closeSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  readSync,
  realpathSync,
  rmSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { makePreload, whyNoPreload } from '../../../cli/src/lab/servers/index.ts'
import { DISK_SHIM } from './disk-shim-source.ts'

/** In one line, why this machine cannot, or null where it can. */
export function whyNoDiskShim(): string | null {
  return whyNoPreload('what a program does to its files can be watched')
}

/** The calls that are counted, and that a fault may meet. */
export const CALL = { write: 1, truncate: 2, sync: 4, open: 8, read: 16, unlink: 32 } as const

/** The order of the numbers in the control file. */
const FIELDS = ['calls', 'failAt', 'failCount', 'failErrno', 'mask', 'killAt', 'torn', 'fsType']

export interface DiskFaults {
  /** Which calls count: bits of `CALL`. */
  readonly mask?: number
  /** The number of the first counted call that fails, from 1; so many, with this errno. */
  readonly failAt?: number
  readonly failCount?: number
  readonly failErrno?: number
  /** The number of the counted call before which the process kills itself. */
  readonly killAt?: number
  /** 1: it does half of a write first. */
  readonly torn?: number
  /** What statfs says of the file system; 0: the truth. */
  readonly fsType?: number
}

export interface Disk {
  /** Where the program's database must be, by this very path. */
  readonly folder: string
  /** A line that is written to this file by the program stands in the log at that moment. */
  readonly notes: string
  readonly env: Readonly<Record<string, string>>
  log(): Buffer
  /** From now on, in all programs that run with `env`; what is not named is off. Counting restarts. */
  set(faults: DiskFaults): void
  /** How many calls of the mask there have been since `set`. */
  calls(): number
  remove(): void
}

export function openDisk(options: { readonly logs: boolean }): Disk {
  const root = realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-disk-')))
  const folder = join(root, 'data')
  const control = join(root, 'control')
  const log = join(root, 'log')
  mkdirSync(folder)
  writeFileSync(control, Buffer.alloc(FIELDS.length * 8))
  const library = makePreload(root, 'disk', DISK_SHIM)
  return {
    folder,
    notes: join(folder, 'notes'),
    env: {
      LD_PRELOAD: library,
      DISK_FOLDER: folder,
      DISK_CONTROL: control,
      ...(options.logs ? { DISK_LOG: log } : {}),
    },
    log: () => readFileSync(log),
    set(faults) {
      const bytes = Buffer.alloc(FIELDS.length * 8)
      FIELDS.forEach((name, index) => {
        bytes.writeBigInt64LE(BigInt((faults as Record<string, number>)[name] ?? 0), index * 8)
      })
      // Not truncated first: it is mapped.
      const file = openSync(control, 'r+')
      writeSync(file, bytes, 0, bytes.length, 0)
      closeSync(file)
    },
    calls() {
      const bytes = Buffer.alloc(8)
      const file = openSync(control, 'r')
      readSync(file, bytes, 0, 8, 0)
      closeSync(file)
      return Number(bytes.readBigInt64LE())
    },
    remove: () => rmSync(root, { recursive: true, force: true }),
  }
}
