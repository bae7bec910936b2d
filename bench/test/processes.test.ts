/** Contenders in processes of their own, as built: a process runs a file of `dist`. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { fileContestants } from '../dist/contestants/files.js'
import { ContenderProcesses } from '../dist/groups/processes.js'

const folder = mkdtempSync(join(tmpdir(), 'holdfast-bench-test-'))
const processes = new ContenderProcesses([1, 1, 1, 1])

afterAll(() => {
  processes.end()
  rmSync(folder, { recursive: true })
})

// The accident: one contestant failed in one process, the others' answers were taken for those to the
// next order, and every contestant after it was told to have let two hold the name at once.
it('a contestant that failed leaves the next ones as they are', async () => {
  const byHand = fileContestants()[0]
  if (byHand === undefined) throw new Error('there is one by hand')
  const failed = processes.arena(byHand, join(folder, 'missing'))
  await expect(failed).rejects.toThrow(/open database file|directory does not exist/)
  const arena = await processes.arena(byHand, folder)
  // The end of the slice is over.
  const sections = await arena.contend(0, 0)
  expect(sections).toEqual([])
  await arena.close()
})
