/** `watchdog` on files of SQLite: what fails is a file, by whoever else has it. */
import type { TrialScenario } from '../../trial.ts'
import { embedded } from '../ground/embedded.ts'
import { loseFile } from './failing-file.ts'
import { askAtFile, fileHolders } from './file-holders.ts'
import { openFileJob } from './file-job.ts'
import { keepFile } from './file-keeper.ts'
import { watchdogOn } from './scenario.ts'

export const scenario: TrialScenario = watchdogOn(embedded, {
  openJob: openFileJob,
  faults: {
    silent: 'another program has the file’s write lock, from before a renewal to after the TTL',
    slow: 'another program has the file’s write lock for two TTLs at a time',
    hung: 'another program stands still in a transaction, and has the file’s write lock',
    dead: 'the file is overwritten',
  },
  lose: loseFile,
  programs: { ...fileHolders, ask: askAtFile, keepFile },
})
