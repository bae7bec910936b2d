/**
 * Which file systems a database of locks may lie on, by the type that statfs tells.
 *
 * Refused is what several hosts can mount at once, and what passes files through a program in between:
 * SQLite's locks are those of one kernel, and the index of its log is memory that processes share, so
 * a second host would neither see the one nor the other, and would grant what is held (sqlite.org/wal.html:
 * "All processes using a database must be on the same host computer; WAL does not work over a network
 * filesystem").
 */
import { statfs } from 'node:fs/promises'
import { BackendUnavailableError, InvalidArgumentError } from '../../core/errors.ts'

/** From Linux' include/uapi/linux/magic.h and the sources of each; the low 32 bits count. */
const REFUSED: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0x517b, 'SMB'],
  [0xff534d42, 'CIFS'],
  [0xfe534d42, 'SMB2'],
  [0x564c, 'NCP'],
  [0x5346414f, 'AFS'],
  [0x6b414653, 'AFS'],
  [0x73757245, 'Coda'],
  [0x00c36400, 'Ceph'],
  [0x0bd00bd0, 'Lustre'],
  [0x47504653, 'GPFS'],
  [0xaad7aaea, 'Panasas'],
  [0x01161970, 'GFS2'],
  [0x7461636f, 'OCFS2'],
  [0x19830326, 'BeeGFS'],
  [0x20030528, 'OrangeFS'],
  [0x013111a8, 'IBRIX'],
  [0xa501fcf5, 'VxFS'],
  [0x7c7c6673, 'a folder of the host of this virtual machine (prl_fs)'],
  [0x786f4256, 'a folder of the host of this virtual machine (vboxsf)'],
  [0xbacbacbc, 'a folder of the host of this virtual machine (vmhgfs)'],
  [0x01021997, 'a folder of the host of this virtual machine (9p)'],
  // sshfs, s3fs, GlusterFS, rclone and virtiofs look alike.
  [0x65735546, 'FUSE'],
])

/** The name of a file system that is refused, or null. */
export function refusedFileSystem(type: number): string | null {
  return REFUSED.get(type >>> 0) ?? null
}

/**
 * @throws InvalidArgumentError when the file lies where several hosts may reach it.
 * @throws BackendUnavailableError when nothing can be told of its folder.
 */
export async function checkFileSystem(
  path: string,
  typeOf: (path: string) => Promise<number> = typeOfFileSystem,
): Promise<void> {
  const type = await lookedAt(path, () => typeOf(path))
  const found = refusedFileSystem(type)
  if (found === null) return
  const allowed = `a file on a disk of this host; ${found} may be shared with others, see networkFileSystem`
  throw new InvalidArgumentError('database', path, allowed)
}

/** @throws BackendUnavailableError where `look` fails. */
export async function lookedAt<T>(path: string, look: () => Promise<T>): Promise<T> {
  try {
    return await look()
  } catch (error) {
    throw new BackendUnavailableError('down', `the file ${path} cannot be looked at`, {
      cause: error,
    })
  }
}

async function typeOfFileSystem(path: string): Promise<number> {
  return (await statfs(path)).type
}
