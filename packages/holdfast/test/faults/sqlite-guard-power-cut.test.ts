/**
 * Power cuts under guarded transactions, by the model of sqlite-power-cut.test.ts: two holders in turn
 * move one number, in the file of the locks or in another.
 *
 * HOLDFAST_POWER_CUTS: how many cuts of each kind, instead of 200.
 */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Children, openChildren } from '../support/child.ts'
import { DiskModel, readLog } from '../support/disk-log.ts'
import { type Disk, openDisk, whyNoDiskShim } from '../support/disk-shim.ts'
import { quickFolder } from '../support/quick-folder.ts'
import { childDrivers, childHead } from '../support/sqlite-child.ts'
import { type Cut, differences, powerCuts, putFiles } from '../support/sqlite-power-cut.ts'

const CUTS = Number(process.env['HOLDFAST_POWER_CUTS'] ?? 200)
const SEED = Number(process.env['HOLDFAST_POWER_CUT_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
const SECTIONS = 60

/** The data's connection is set up before the file is switched to WAL by that of the locks. */
const text = (dataFile: string, synchronous: string): string => `
const data = new Database(${JSON.stringify(dataFile)})
const guard = sqliteGuardWith(data, { synchronous: '${synchronous}' })
await guard.migrate()
data.exec('CREATE TABLE IF NOT EXISTS moved (id INTEGER PRIMARY KEY, n INTEGER, token INTEGER)')
data.exec('INSERT OR IGNORE INTO moved VALUES (1, 0, 0)')
data.prepare('PRAGMA wal_autocheckpoint = 8').all()
const switched = new Database(${JSON.stringify(dataFile)})
switched.prepare('PRAGMA journal_mode = WAL').all()
note({ open: true })
for (let index = 1; index <= ${SECTIONS}; index++) {
  const { grant } = await backend.tryAcquire({
    lockName: 'r', owner: randomOwner(), ttlMs: 600000, timeoutMs: 30000, lockDelayMs: 0,
    waits: false, waiter: 'w', holder: { host: 'h', pid: process.pid }, onLost() {},
  })
  await guard.transaction(grant, (tx) => {
    tx.prepare('UPDATE moved SET n = n + 1, token = ? WHERE id = 1').run(grant.fencingToken)
  })
  note({ token: String(index) })
  await backend.release(grant, 0)
}
process.kill(process.pid, 'SIGKILL')
`

const whyNot = whyNoDiskShim()
if (whyNot !== null) console.warn(`left out, power cuts of guarded data: ${whyNot}`)

describe.skipIf(whyNot !== null).each(childDrivers)(
  `guarded data after a power cut (seed ${SEED}), with $name,`,
  (driver) => {
    let children: Children
    let root: string

    beforeAll(async () => {
      children = await openChildren()
      root = quickFolder('holdfast-guarded-')
    })

    afterAll(async () => {
      await children.remove()
      rmSync(root, { recursive: true, force: true })
    })

    async function losses(disk: Disk, dataName: string, synchronous: string): Promise<string[]> {
      const head = childHead({ file: join(disk.folder, 'locks.db'), notes: disk.notes })
      const guard = `import { sqliteGuardWith } from './dist/guards/sqlite/guard.js'\n`
      const program = guard + head + text(join(disk.folder, dataName), synchronous)
      const { signal, stderr } = await children.run(program, [], disk.env).ended
      expect(signal, stderr).toBe('SIGKILL')
      const records = readLog(disk.log())
      const model = new DiskModel()
      for (const record of records) model.apply(record)
      expect(differences(disk.folder, model.whole())).toEqual([])
      const cuts = [...powerCuts(records, SEED, CUTS)].filter(({ told }) => told.isOpen)
      expect(cuts.length).toBeGreaterThan(CUTS / 2)
      return cuts.map((cut) => lossOf(cut, dataName)).filter((loss) => loss !== null)
    }

    /** The number and the fence move together, and no further back than a caller was told. */
    function lossOf({ at, told, files }: Cut, dataName: string): string | null {
      const folder = join(root, 'cut')
      putFiles(folder, files)
      const db = driver.open(join(folder, dataName))
      try {
        const row = db.prepare(MOVED).get() as Record<'n' | 'token' | 'fence', string | null>
        if (BigInt(row.n ?? -1) < told.token) return `cut ${at}: ${row.n} after ${told.token}`
        const isWhole = row.token === (row.fence ?? '0')
        return isWhole ? null : `cut ${at}: written by ${row.token}, fenced by ${row.fence}`
      } catch (error) {
        return `cut ${at}: ${error}`
      } finally {
        db.close()
      }
    }

    // What is lost after `transaction` resolved was acknowledged; what is there without its claim can be
    // overwritten by an older holder.
    it.each([
      ['the file of the locks', 'locks.db'],
      ['a file of its own', 'data.db'],
    ])('is there as acknowledged, together with its claim: in %s', async (_where, dataName) => {
      const disk = openDisk({ logs: true })
      try {
        expect(await losses(disk, dataName, 'full')).toEqual([])
      } finally {
        disk.remove()
      }
    })

    // The negative control, without which the test above proves nothing.
    it('is lost where the connection does not wait for the disk', async () => {
      const disk = openDisk({ logs: true })
      try {
        expect(await losses(disk, 'data.db', 'normal')).not.toEqual([])
      } finally {
        disk.remove()
      }
    })
  },
)

const MOVED = `SELECT CAST(n AS TEXT) AS n, CAST(token AS TEXT) AS token,
  (SELECT CAST(token AS TEXT) FROM holdfast_fences WHERE resource = 'r') AS fence FROM moved`
