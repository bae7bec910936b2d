/**
 * Packs both packages for publishing: `npm run pack -- <folder>`; prints the tarballs' paths.
 *
 * `npm publish <tarball>` then publishes exactly what test/package looked at.
 */
import { mkdirSync } from 'node:fs'
import { resolve } from 'node:path'
import { packAll } from './lib/pack.mjs'
import { SetupError, say } from './lib/progress.mjs'

const [folder, ...rest] = process.argv.slice(2)

if (folder === undefined || rest.length > 0) {
  say('usage: npm run pack -- <folder for the tarballs>')
  process.exitCode = 2
} else {
  try {
    mkdirSync(folder, { recursive: true })
    for (const tarball of await packAll(resolve(folder))) console.log(tarball)
  } catch (error) {
    if (!(error instanceof SetupError)) throw error
    say(error.message)
    process.exitCode = 1
  }
}
