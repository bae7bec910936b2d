import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { judgeDrivers, leadThroughFaults, ROUNDS_MS_MAX, SAFE } from '../support/election-rounds.ts'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-election-locks-'))

afterAll(() => rmSync(folder, { recursive: true, force: true }))

for (const driver of judgeDrivers) {
  // B096: two leaders, of whom one was paused, write by turns.
  it(
    'one of three leads, whatever ends the leader, and the guard accepts no write of a deposed one',
    async () => {
      const verdict = await leadThroughFaults(driver, {
        ttlMs: 600,
        backendText: `import { sqliteBackend } from "./dist/sqlite.js"
const backend = sqliteBackend(open(${JSON.stringify(join(folder, 'locks.db'))}))`,
      })
      expect(verdict).toEqual(SAFE)
    },
    ROUNDS_MS_MAX,
  )
}
