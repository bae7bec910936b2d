/** Programs that work on one lock file while their disk is watched, and what a power cut may do. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { draw } from '../../../cli/src/lab/draw.ts'
import { type DiskFiles, DiskModel, type DiskRecord } from './disk-log.ts'

/** What callers had been told before the power went. */
export interface Told {
  /** Whether the file had been set up by anyone. */
  isOpen: boolean
  /** The highest token that a grant returned, or that a raise confirmed. */
  token: bigint
  /** By name: grants whose holders had begun nothing that ends them. */
  readonly held: Map<string, bigint>
}

/** Each worker: cycles of everything that writes, with a note before and after what matters. */
export function workerText(cycles: number): string {
  return `
const names = ['n0', 'n1', 'n2', 'own' + process.pid]
const request = (lockName) => ({
  lockName, owner: randomOwner(), ttlMs: 600000, timeoutMs: 30000, lockDelayMs: 0, waits: false,
  waiter: 'w' + process.pid, holder: { host: 'h', pid: process.pid }, onLost() {},
})
const told = (grant) => note({ granted: grant.lockName, token: String(grant.fencingToken) })
note({ open: true })
for (let index = 0; index < ${cycles}; index++) {
  const lockName = names[index % names.length]
  const asked = request(lockName)
  const result = await backend.tryAcquire(asked)
  if (result.kind === 'held') continue
  let { grant } = result
  told(grant)
  if (index % 3 === 0) await backend.renew(grant, 600000)
  if (index % 5 === 0) await backend.proclaim(grant, 'v'.repeat(index % 500))
  if (index % 7 === 0) {
    const min = grant.fencingToken + 10n
    await backend.raise(lockName, min)
    note({ token: String(min) })
  }
  note({ ends: lockName })
  if (index % 4 === 0) {
    const passed = await backend.handOver(grant, request(lockName), true)
    if (passed.kind === 'handed-over') told(grant = passed.grant)
    note({ ends: lockName })
  }
  if (index % 6 === 0) await backend.cancel(lockName, grant.owner)
  else await backend.release(grant, 0)
}
`
}

/** Takes one note in. */
export function hear(told: Told, note: string): void {
  const { open, granted, token, ends } = JSON.parse(note) as Record<string, string | undefined>
  if (open) told.isOpen = true
  if (token && BigInt(token) > told.token) told.token = BigInt(token)
  if (granted && token) told.held.set(granted, BigInt(token))
  if (ends) told.held.delete(ends)
}

export interface Cut {
  /** How many records of the log had happened. */
  readonly at: number
  readonly told: Told
  readonly files: DiskFiles
}

/** Some `count` power cuts at moments that the seed chooses, in order of time. */
export function* powerCuts(
  records: readonly DiskRecord[],
  seed: number,
  count: number,
): Generator<Cut> {
  let drawn = 0
  const random = (): number => draw(seed, `power cut ${drawn++}`)
  const told: Told = { isOpen: false, token: 0n, held: new Map() }
  const model = new DiskModel()
  const perRecord = count / records.length
  for (const [at, record] of records.entries()) {
    model.apply(record)
    if (record.kind === 'note') hear(told, record.data.toString())
    // Short logs are cut several times at one moment: each time something else is lost.
    for (let left = perRecord; left > 0; left--) {
      if (random() < left) {
        yield { at, told: { ...told, held: new Map(told.held) }, files: model.cut(random) }
      }
    }
  }
}

/** Puts the files of a cut where they can be opened. */
export function putFiles(folder: string, files: DiskFiles): void {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder)
  for (const [name, content] of files) writeFileSync(join(folder, name), content)
}

/** Names of files whose bytes are not those that the log gives; none if the log is whole. */
export function differences(folder: string, files: DiskFiles): string[] {
  const names = readdirSync(folder).filter((name) => !/^notes$|-shm$/.test(name))
  const both = new Set([...names, ...files.keys()])
  return [...both].filter((name) => {
    const content = files.get(name)
    return !names.includes(name) || !content?.equals(readFileSync(join(folder, name)))
  })
}
