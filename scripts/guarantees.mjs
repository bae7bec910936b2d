/**
 * Writes the table of guarantees into the pages that have it: `npm run guarantees`, after a build.
 * See lib/guarantee-table.mjs. It needs a driver of SQLite, which `npm install` brings.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import Database from 'better-sqlite3'
import { Redis } from 'ioredis'
import { guaranteeRows, withGuarantees } from './lib/guarantee-table.mjs'
import { say } from './lib/progress.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const entry = (name) => import(`../packages/holdfast/dist/${name}.js`)

const library = Object.assign(
  {},
  await entry('index'),
  await entry('redis'),
  await entry('redlock'),
  await entry('etcd'),
  await entry('sqlite'),
)
const folder = mkdtempSync(join(tmpdir(), 'holdfast-guarantees-'))
try {
  const database = new Database(join(folder, 'locks.db'))
  const rows = guaranteeRows(library, new Redis({ lazyConnect: true }), database)
  for (const path of ['README.md', 'docs/guarantees.md']) {
    const page = readFileSync(join(ROOT, path), 'utf8')
    const fresh = withGuarantees(page, path, rows)
    if (fresh === page) continue
    writeFileSync(join(ROOT, path), fresh)
    say(`${path}: the table of guarantees is put in anew`)
  }
  database.close()
} finally {
  rmSync(folder, { recursive: true, force: true })
}
