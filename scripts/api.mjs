/**
 * Writes the listing of the public surface, packages/holdfast/api/*.txt: `npm run api`.
 *
 * A test compares it with what the sources give, so a change of the surface shows in review.
 */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { entriesOf, listApi } from './lib/api-listing.mjs'
import { emitLibrary } from './lib/emit.mjs'
import { SetupError, say } from './lib/progress.mjs'

const PACKAGE = fileURLToPath(new URL('../packages/holdfast/', import.meta.url))
const TARGET = join(PACKAGE, 'api')

const folder = mkdtempSync(join(tmpdir(), 'holdfast-api-'))
try {
  await emitLibrary(folder)
  const json = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8'))
  const listings = listApi(folder, entriesOf(json))
  mkdirSync(TARGET, { recursive: true })
  for (const name of readdirSync(TARGET)) if (!listings[name]) rmSync(join(TARGET, name))
  for (const [name, text] of Object.entries(listings)) writeFileSync(join(TARGET, name), text)
  say(`wrote ${Object.keys(listings).join(', ')} in packages/holdfast/api`)
} catch (error) {
  if (!(error instanceof SetupError)) throw error
  say(error.message)
  process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}
