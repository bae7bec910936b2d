/** What the text of a child begins with that uses a lock file; see child.ts for where it stands. */

import type { SqliteOptions } from '../../src/backends/sqlite/options.ts'
import { moduleUrl } from './child.ts'
import { type SqliteDriver, sqliteDrivers } from './sqlite-drivers.ts'

/** One at most: what these tests find out is the same with each. */
export const childDrivers: readonly SqliteDriver[] = sqliteDrivers().slice(0, 1)

export interface ChildHead {
  readonly file: string
  /** Absolute; each `note(value)` appends its JSON, a line, in one write. */
  readonly notes?: string
  /** Members, in JavaScript, that take the place of the system's seams: `wallMs: () => 1`. */
  readonly seams?: string
  /** Statements that are run on the database before the backend gets it. */
  readonly settings?: readonly string[]
  /** Whether it gives root's rights up before it opens the file: root may write everywhere. */
  readonly isOrdinaryUser?: boolean
  readonly options?: SqliteOptions
  /** An expression that makes of `opened` what the backend gets. */
  readonly wrap?: string
}

/** Gives `opened`, `db`, `backend`, `note` and `randomOwner`. */
export function childHead(head: ChildHead): string {
  const {
    file,
    notes,
    seams = '',
    settings = [],
    wrap,
    isOrdinaryUser = false,
    options = {},
  } = head
  return `
import { openSync, writeSync } from 'node:fs'
import { sqliteBackendWith } from './dist/backends/sqlite/sqlite-backend.js'
import { systemSeams } from './dist/core/seams.js'
import { randomOwner } from './dist/core/owner.js'
${opening(file, isOrdinaryUser)}
${settings.map((sql) => `opened.prepare(${JSON.stringify(sql)}).all()`).join('\n')}
const notesFile = ${notes === undefined ? 'null' : `openSync(${JSON.stringify(notes)}, 'a')`}
const note = (value) => writeSync(notesFile, JSON.stringify(value) + '\\n')
const db = ${wrap ?? 'opened'}
const backend = sqliteBackendWith({ ...systemSeams, ${seams} }, db, ${JSON.stringify(options)})
`
}

/** Nobody, by custom. */
const OTHER_ID = 65_534

function opening(file: string, isOrdinaryUser: boolean): string {
  const path = JSON.stringify(file)
  const addon = process.env['HOLDFAST_BETTER_SQLITE3']
  const options = JSON.stringify(addon ? { nativeBinding: addon } : {})
  const driver =
    childDrivers[0]?.name === 'node:sqlite'
      ? `import { DatabaseSync as Database } from 'node:sqlite'`
      : `import Database from ${moduleUrl('better-sqlite3')}`
  // What the driver itself loads, it may not be able to read afterwards.
  const leave = `new Database(':memory:', ${options}).close()
if (process.getuid() === 0) {
  process.setgid(${OTHER_ID})
  process.setuid(${OTHER_ID})
}`
  return `${driver}
${isOrdinaryUser ? leave : ''}
const opened = new Database(${path}, ${options})`
}
