/**
 * What a disk may hold after the power went, from the log of disk-shim.ts.
 *
 * The model: what was written to a file before the last fsync of that file is there. Of what came
 * after, each write and each truncation may be there, may be missing, or (a write) may be there in
 * some sectors only, independently of each other. A name that was made or removed since the last
 * fsync of the folder may be as before.
 */
const HEAD_BYTES = 40

const KINDS = [
  '',
  'create',
  'write',
  'truncate',
  'sync',
  'unlink',
  'rename',
  'folder-sync',
  'note',
  'escape',
] as const

export interface DiskRecord {
  readonly kind: (typeof KINDS)[number]
  readonly pid: number
  readonly inode: bigint
  readonly offset: number
  readonly length: number
  readonly name: string
  readonly data: Buffer
}

export function readLog(log: Buffer): DiskRecord[] {
  const records: DiskRecord[] = []
  for (let at = 0; at < log.length; ) {
    const nameBytes = log.readUInt32LE(at + 32)
    const dataAt = at + HEAD_BYTES + nameBytes
    const end = dataAt + log.readUInt32LE(at + 36)
    const kind = KINDS[log.readUInt32LE(at)]
    if (!kind || end > log.length) throw new Error(`the log of the disk is broken at byte ${at}`)
    records.push({
      kind,
      pid: log.readUInt32LE(at + 4),
      inode: log.readBigUInt64LE(at + 8),
      offset: Number(log.readBigUInt64LE(at + 16)),
      length: Number(log.readBigUInt64LE(at + 24)),
      name: log.toString('utf8', at + HEAD_BYTES, dataAt),
      data: log.subarray(dataAt, end),
    })
    at = end
  }
  return records
}

/** The files of a folder, by name. */
export type DiskFiles = ReadonlyMap<string, Buffer>

export class DiskModel {
  /** By inode: as of its last fsync, and what was asked for since. */
  readonly #contents = new Map<bigint, { durable: Buffer; pending: DiskRecord[] }>()
  #names = new Map<string, bigint>()
  #pendingNames: DiskRecord[] = []

  /** @throws at a change that the shim saw but does not know how to write down. */
  apply(record: DiskRecord): void {
    if (record.kind === 'escape') throw new Error(`${record.name} went past the log of the disk`)
    if (record.kind === 'write' || record.kind === 'truncate') {
      this.#file(record.inode).pending.push(record)
    } else if (record.kind === 'sync') {
      const file = this.#file(record.inode)
      file.durable = file.pending.reduce(changed, file.durable)
      file.pending = []
    } else if (record.kind === 'folder-sync') {
      for (const change of this.#pendingNames) rename(this.#names, change)
      this.#pendingNames = []
    } else if (record.kind !== 'note') {
      this.#pendingNames.push(record)
    }
  }

  /** As if no power cut had ever come. */
  whole(): DiskFiles {
    return this.#rebuilt(() => 1, 4096)
  }

  /**
   * One of the states that a power cut now may leave.
   *
   * @param random Uniform in [0, 1).
   */
  cut(random: () => number): DiskFiles {
    // A fair coin for each write would almost never lose all of them, or only the last one.
    const keeps = [0, 0.5, 0.9, 0.98][Math.floor(random() * 4)] as number
    const tears = random() < 0.5 ? 0.3 : 0
    const sectorBytes = random() < 0.5 ? 512 : 4096
    const share = (canTear: boolean): number => {
      if (random() < keeps) return 1
      return canTear && random() < tears ? random() : 0
    }
    return this.#rebuilt(share, sectorBytes, random)
  }

  /** @param share How much of a change is there: 0, 1, or of its sectors this share. */
  #rebuilt(
    share: (canTear: boolean) => number,
    sectorBytes: number,
    random: () => number = () => 0,
  ): DiskFiles {
    const names = new Map(this.#names)
    for (const change of this.#pendingNames) if (share(false) === 1) rename(names, change)
    const files = new Map<string, Buffer>()
    for (const [name, inode] of names) {
      const { durable, pending } = this.#file(inode)
      let content = durable
      for (const change of pending) {
        const part = share(change.kind === 'write')
        if (part === 1) content = changed(content, change)
        else if (part > 0) content = torn(content, change, sectorBytes, () => random() < part)
      }
      files.set(name, content)
    }
    return files
  }

  #file(inode: bigint): { durable: Buffer; pending: DiskRecord[] } {
    let file = this.#contents.get(inode)
    if (!file) {
      file = { durable: Buffer.alloc(0), pending: [] }
      this.#contents.set(inode, file)
    }
    return file
  }
}

function rename(names: Map<string, bigint>, change: DiskRecord): void {
  const inode = change.kind === 'create' ? change.inode : names.get(change.name)
  if (change.kind !== 'create') names.delete(change.name)
  const target = change.kind === 'rename' ? change.data.toString() : change.name
  if (change.kind !== 'unlink' && inode !== undefined) names.set(target, inode)
}

/** A new buffer: older states of the file stay as they were. */
function changed(content: Buffer, change: DiskRecord): Buffer {
  if (change.kind === 'truncate') {
    const cut = Buffer.alloc(change.length)
    content.copy(cut, 0, 0, Math.min(content.length, change.length))
    return cut
  }
  const result = Buffer.alloc(Math.max(content.length, change.offset + change.data.length))
  content.copy(result)
  change.data.copy(result, change.offset)
  return result
}

function torn(
  content: Buffer,
  change: DiskRecord,
  sectorBytes: number,
  keeps: () => boolean,
): Buffer {
  let result = content
  const end = change.offset + change.data.length
  for (let at = change.offset; at < end; ) {
    // Sectors of the disk, not of the write: a write may begin in the middle of one.
    const next = Math.min(end, (Math.floor(at / sectorBytes) + 1) * sectorBytes)
    if (keeps()) {
      const data = change.data.subarray(at - change.offset, next - change.offset)
      result = changed(result, { ...change, offset: at, data })
    }
    at = next
  }
  return result
}
