import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { describe, expect, test } from 'vitest'
import { openFile } from '../../src/lab/scenarios/ground/sqlite-database.ts'
import { noSqlite } from './fixtures/sqlite.ts'

if (noSqlite !== null) console.warn(`left out, the files of the lab: ${noSqlite}`)

const DRIVER = new URL('../../dist/lab/scenarios/ground/sqlite-driver.js', import.meta.url).href

/** Writes to a new file, and has not ended its transaction for a while. */
const WRITER = `
  const { parentPort, workerData } = require('node:worker_threads')
  import(${JSON.stringify(DRIVER)}).then(({ sqliteDriver }) => {
    const db = sqliteDriver().open(workerData)
    db.exec('CREATE TABLE t (a); BEGIN IMMEDIATE')
    parentPort.postMessage('writing')
    setTimeout(() => {
      db.exec('COMMIT')
      db.close()
    }, 300)
  })`

describe.runIf(noSqlite === null)('a file of the lab', () => {
  // Eight pods open a file at once: one of them got SQLITE_BUSY at once, and the arm was void.
  test('opens while another one writes to it that has not switched it to WAL', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-lab-files-'))
    try {
      const path = join(folder, 'new.db')
      const writer = new Worker(WRITER, { eval: true, workerData: path })
      const ended = once(writer, 'exit')
      await once(writer, 'message')
      const db = openFile(path, 'lab')
      const row = db.prepare('PRAGMA journal_mode').get() as { journal_mode: string }
      expect(row.journal_mode).toBe('wal')
      await ended
      db.close()
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
