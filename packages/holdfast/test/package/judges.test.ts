/** What publint and attw, two judges of published packages, say of the tarballs. */
import { spawnSync } from 'node:child_process'
import { closeSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { broken, emptyFolder, packedTarballs, ROOT, runNode } from './folders.ts'

const tarballs = packedTarballs()

const PUBLINT = join(ROOT, 'node_modules/publint/src/cli.js')
const ATTW = join(ROOT, 'node_modules/@arethetypeswrong/cli/dist/index.js')

/** The lines that say what is wrong; null: nothing is. */
async function publint(tarball: string): Promise<string | null> {
  const { code, output } = await runNode(emptyFolder(), PUBLINT, 'run', tarball, '--strict')
  return code === 0 ? null : output
}

/** As it says it in JSON: which problems each entry has, under ESM resolution. */
async function attw(tarball: string): Promise<string[] | null> {
  const args = [ATTW, tarball, '--profile', 'esm-only', '--format', 'json']
  // It ends before a pipe has taken all that it says; a file takes it at once.
  const path = join(emptyFolder(), 'said.json')
  const file = openSync(path, 'w')
  const { status } = spawnSync(process.execPath, args, { stdio: ['ignore', file, 'ignore'] })
  closeSync(file)
  if (status === 0) return null
  const said = readFileSync(path, 'utf8')
  const { problems } = JSON.parse(said) as { problems?: Record<string, unknown[]> }
  return Object.keys(problems ?? { 'no answer': [] })
}

/** Rewrites package.json, as a publisher might. */
function edit(folder: string, change: (json: { exports: Record<string, unknown> }) => void): void {
  const path = join(folder, 'package.json')
  const json = JSON.parse(readFileSync(path, 'utf8')) as { exports: Record<string, unknown> }
  change(json)
  writeFileSync(path, JSON.stringify(json))
}

// The accident: the package works here and cannot be resolved by some bundler or compiler.
it.each(['holdfast', 'cli'] as const)('publint finds nothing in %s', async (name) => {
  expect(await publint(tarballs[name])).toBeNull()
})

it('publint finds types that come after the code, where no compiler looks', async () => {
  const damaged = await broken(tarballs.holdfast, (folder) =>
    edit(folder, (json) => {
      json.exports['.'] = { default: './dist/index.js', types: './dist/index.d.ts' }
    }),
  )
  expect(await publint(damaged)).toContain('types')
})

// The accident: an entry without types, or with those of another module system.
it('attw finds nothing in holdfast under ESM resolution', async () => {
  expect(await attw(tarballs.holdfast)).toBeNull()
})

it('attw finds an entry whose declaration file is missing', async () => {
  const damaged = await broken(tarballs.holdfast, (folder) =>
    rmSync(join(folder, 'dist/index.d.ts')),
  )
  expect(await attw(damaged)).toContain('UntypedResolution')
})
