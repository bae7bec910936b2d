import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, describe, expect, test, vi } from 'vitest'
import { openHandLocks } from '../../src/lab/scenarios/ground/hand-locks.ts'
import { databaseOn, openFile } from '../../src/lab/scenarios/ground/sqlite-database.ts'
import { noSqlite } from './fixtures/sqlite.ts'

afterEach(() => {
  vi.useRealTimers()
})

if (noSqlite !== null) console.warn(`left out, locks made by hand in a file: ${noSqlite}`)

describe.runIf(noSqlite === null)('locks made by hand in a file', () => {
  // The accident: A takes it at 0.9 ms and B at 300.0 ms, of a TTL of 300 ms. The checker, whose clock
  // is finer, finds that B was granted what A still held, and the arm is void.
  test('nobody else gets one in the millisecond in which it ends', async () => {
    vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 })
    const folder = mkdtempSync(join(tmpdir(), 'holdfast-hand-locks-'))
    const file = openFile(join(folder, 'hand.db'), 'locks')
    try {
      const locks = await openHandLocks(databaseOn(file))
      expect(await locks.take('one', 'A', 300)).toBe(true)
      vi.setSystemTime(1_000_300)
      expect(await locks.take('one', 'B', 300)).toBe(false)
      vi.setSystemTime(1_000_301)
      expect(await locks.take('one', 'B', 300)).toBe(true)
    } finally {
      file.close()
      rmSync(folder, { recursive: true })
    }
  })
})
