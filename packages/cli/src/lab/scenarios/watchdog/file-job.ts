/** The store of the long job without a server: a file, whose entries the lab reads itself. */

import { lockEntry } from '../ground/lock-file.ts'
import { databaseOn, openFile } from '../ground/sqlite-database.ts'
import { FILE_CLIENTS, fileOf } from './failing-file.ts'
import type { OpenJobStore } from './job-store.ts'

export const openFileJob: OpenJobStore = async (trial, locks) => {
  const store = fileOf(trial, locks)
  const db = openFile(store.path, 'lab')
  const looker = databaseOn(db)
  return {
    ...{ clients: FILE_CLIENTS, forHolders: store, forOthers: store },
    look: async (name) => (await lockEntry(looker, name)) ?? { owner: '', leftMs: 0 },
    close: async () => void db.close(),
  }
}
