/**
 * Power cuts, by a model: three processes work on one lock file while everything that they do to
 * the disk is written down; then files are built as they may be after the power went, and opened.
 *
 * HOLDFAST_POWER_CUTS: how many cuts, instead of 600; HOLDFAST_POWER_CUT_SEED: which ones.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { thisHost } from '../../src/backends/sqlite/host.ts'
import { sqliteBackendWith } from '../../src/backends/sqlite/sqlite-backend.ts'
import type { AcquireResult, Backend } from '../../src/core/backend.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import { request } from '../../src/testkit/backend-harness.ts'
import { type Children, openChildren } from '../support/child.ts'
import { DiskModel, type DiskRecord, readLog } from '../support/disk-log.ts'
import { type Disk, openDisk, whyNoDiskShim } from '../support/disk-shim.ts'
import { quickFolder } from '../support/quick-folder.ts'
import { childDrivers, childHead } from '../support/sqlite-child.ts'
import {
  type Cut,
  differences,
  powerCuts,
  putFiles,
  type Told,
  workerText,
} from '../support/sqlite-power-cut.ts'

const CUTS = Number(process.env['HOLDFAST_POWER_CUTS'] ?? 600)
const SEED = Number(process.env['HOLDFAST_POWER_CUT_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const PROCESSES = 3
/** For each process. */
const CYCLES = 60
/** So small that the log is taken into the file again and again while the processes work. */
const CHECKPOINT = 'PRAGMA wal_autocheckpoint = 8'

/**
 * Without the clock, which would carry the tokens over any loss while it goes forward: what a power
 * cut does to the clock of a machine without a battery.
 */
const SEAMS: Seams = { ...systemSeams, wallMs: () => 1 }

const OTHER_BOOT_ID = '00000000-0000-4000-8000-000000000000'

const whyNot = whyNoDiskShim()
if (whyNot !== null) console.warn(`left out, power cuts of a lock file: ${whyNot}`)

describe.skipIf(whyNot !== null).each(childDrivers)(
  `a power cut (seed ${SEED}), with $name,`,
  (driver) => {
    let children: Children
    let root: string

    beforeAll(async () => {
      children = await openChildren()
      root = quickFolder('holdfast-cut-')
    })

    afterAll(async () => {
      await children.remove()
      rmSync(root, { recursive: true, force: true })
    })

    async function recorded(disk: Disk, synchronous: 'full' | 'normal'): Promise<DiskRecord[]> {
      const head = childHead({
        file: join(disk.folder, 'locks.db'),
        notes: disk.notes,
        seams: 'wallMs: () => 1',
        settings: [CHECKPOINT],
        options: { synchronous },
      })
      // Not closed: the last one to close would take the log into the file and remove it.
      const text = `${head}${workerText(CYCLES)}process.kill(process.pid, 'SIGKILL')`
      const ends = await Promise.all(
        Array.from({ length: PROCESSES }, () => children.run(text, [], disk.env).ended),
      )
      for (const { signal, stderr } of ends) expect(signal, stderr).toBe('SIGKILL')
      return readLog(disk.log())
    }

    /** In words, what was lost; null if nothing was. */
    async function lossOf(cut: Cut): Promise<string | null> {
      const { at, files } = cut
      const folder = join(root, 'cut')
      putFiles(folder, files)
      const db = driver.open(join(folder, 'locks.db'))
      // Every second machine had to boot.
      const hasBooted = at % 2 === 0
      const host = hasBooted ? { ...thisHost(), bootId: OTHER_BOOT_ID } : thisHost()
      const backend = sqliteBackendWith(SEAMS, db, {}, { host })
      try {
        const loss = await lossIn(backend, cut.told, hasBooted)
        const check = db.prepare('PRAGMA integrity_check').get() as { integrity_check: string }
        const words = check.integrity_check === 'ok' ? loss : check.integrity_check
        return words === null ? null : `cut ${at}: ${words}`
      } catch (error) {
        return `cut ${at}: ${error}`
      } finally {
        await backend.close()
        db.close()
      }
    }

    async function losses(records: readonly DiskRecord[], count: number): Promise<string[]> {
      const found: string[] = []
      let cuts = 0
      for (const cut of powerCuts(records, SEED, count)) {
        cuts += 1
        const loss = await lossOf(cut)
        if (loss !== null) found.push(loss)
      }
      expect(cuts).toBeGreaterThan(count * 0.8)
      return found
    }

    // B097: tokens that were given out and are forgotten are given out again, and the guard would let the
    // older of two holders write.
    it('loses no token and no grant that a caller had been told of', async () => {
      const disk = openDisk({ logs: true })
      try {
        const records = await recorded(disk, 'full')
        const model = new DiskModel()
        for (const record of records) model.apply(record)
        // The control of the log itself: everything that reached the files is in it.
        expect(differences(disk.folder, model.whole())).toEqual([])
        expect(checkpointsIn(records)).toBeGreaterThan(5)
        expect(await losses(records, CUTS)).toEqual([])
      } finally {
        disk.remove()
      }
    }, 300_000)

    // The negative control. Were nothing to be lost here either, the test above would prove nothing.
    it('loses tokens where the connection does not wait for the disk', async () => {
      const disk = openDisk({ logs: true })
      try {
        const records = await recorded(disk, 'normal')
        const found = await losses(records, Math.min(CUTS, 200))
        expect(found.filter((loss) => loss.includes('the next token is')).length).toBeGreaterThan(0)
      } finally {
        disk.remove()
      }
    }, 300_000)
  },
)

async function lossIn(
  backend: Backend,
  { token, held }: Told,
  hasBooted: boolean,
): Promise<string | null> {
  const next = tokenOf(await backend.tryAcquire(request('nobody had this name')))
  if (next <= token) return `the next token is ${next} after ${token}`
  for (const [name, granted] of held) {
    const found = (await backend.inspect(name))?.fencingToken ?? null
    // Nobody who held a lock before the boot lives: what they held is free, at once.
    if (hasBooted && found !== null) return `"${name}" is still held after a boot`
    if (!hasBooted && found !== granted) return `"${name}", granted by ${granted}, is ${found}`
  }
  return null
}

function tokenOf(result: AcquireResult): bigint {
  if (result.kind === 'held') throw new Error('a name that nobody had is held')
  return result.grant.fencingToken
}

/** The database file itself is written by checkpoints only. */
function checkpointsIn(records: readonly DiskRecord[]): number {
  const main = records.find(({ kind, name }) => kind === 'create' && name === 'locks.db')?.inode
  return records.filter(({ kind, inode }) => kind === 'sync' && inode === main).length
}
