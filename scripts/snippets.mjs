/** Puts the marked snippets of all pages in anew: `node scripts/snippets.mjs`. See lib/snippets.mjs. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { withSnippets } from './lib/snippets.mjs'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const read = (path) => readFileSync(join(ROOT, path), 'utf8')

const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard', '*.md']
for (const path of execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' }).split('\0')) {
  if (path === '') continue
  const page = read(path)
  const fresh = withSnippets(page, read)
  if (fresh === page) continue
  writeFileSync(join(ROOT, path), fresh)
  console.log(`${path}: snippets put in anew`)
}
