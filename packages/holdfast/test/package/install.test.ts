/** The library in a consumer's folder that holds nothing else: no driver, no compiler, no cache. */
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { broken, emptyFolder, installed, packedTarballs, ROOT, runNode } from './folders.ts'

const { holdfast } = packedTarballs()

const { exports } = JSON.parse(
  readFileSync(join(ROOT, 'packages/holdfast/package.json'), 'utf8'),
) as { exports: Record<string, unknown> }

/** `holdfast`, `holdfast/redis`, … */
const SPECIFIERS = Object.keys(exports).map((entry) => `holdfast${entry.slice(1)}`)

/** Loads one entry in a process of its own, which must then end by itself. */
function load(folder: string, form: 'require' | 'import', specifier: string) {
  const file = join(folder, `load.${form === 'require' ? 'cjs' : 'mjs'}`)
  const attributes = specifier.endsWith('.json') ? ", { with: { type: 'json' } }" : ''
  const expression =
    form === 'require' ? `require('${specifier}')` : `await import('${specifier}'${attributes})`
  writeFileSync(
    file,
    `const names = Object.keys(${expression})\nif (names.length === 0) process.exit(3)\n`,
  )
  return runNode(folder, file)
}

/** What goes wrong, entry by entry. */
async function failures(folder: string): Promise<string[]> {
  const found: string[] = []
  for (const specifier of SPECIFIERS) {
    for (const form of ['require', 'import'] as const) {
      const { code, output } = await load(folder, form, specifier)
      if (code !== 0) found.push(`${form} of ${specifier} ends with ${code}: ${output}`)
    }
  }
  return found
}

// The accident: the main entry pulls in the Redis client of somebody who only wants the one in
// memory; or an await at the top of a file locks out everybody who still requires.
it('npm installs it offline, and every entry loads without a driver', async () => {
  const folder = await installed(holdfast)
  expect(readdirSync(join(folder, 'node_modules')).filter((name) => !name.startsWith('.'))).toEqual(
    ['holdfast'],
  )
  expect(await failures(folder)).toEqual([])
})

// The accident: strict layouts, where a package sees only what it declares, find what npm hides.
it('pnpm installs it offline, and every entry loads without a driver', async () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}\n')
  const pnpm = join(ROOT, 'node_modules/pnpm/bin/pnpm.cjs')
  const args = ['add', holdfast, '--offline', '--store-dir', join(folder, '.store')]
  const { code, output } = await runNode(folder, pnpm, ...args)
  expect({ code, output }).toMatchObject({ code: 0 })
  expect(existsSync(join(folder, 'node_modules/.pnpm'))).toBe(true)
  expect(await failures(folder)).toEqual([])
})

// The accident: somebody builds on a file that we never meant to publish, and breaks with it.
it('only the entries of the exports map can be imported', async () => {
  const folder = await installed(holdfast)
  for (const form of ['require', 'import'] as const) {
    const { code, output } = await load(folder, form, 'holdfast/dist/core/clock.js')
    expect(code).toBe(1)
    expect(output).toContain('ERR_PACKAGE_PATH_NOT_EXPORTED')
  }
})

it('an entry that needs a driver is found', async () => {
  const damaged = await broken(holdfast, (folder) =>
    appendFileSync(join(folder, 'dist/core/errors.js'), "import 'ioredis'\n"),
  )
  const found = await failures(await installed(damaged))
  expect(found[0]).toMatch(/^require of holdfast ends with 1: .*Cannot find package 'ioredis'/s)
})

it('an entry that cannot be required is found', async () => {
  const damaged = await broken(holdfast, (folder) =>
    appendFileSync(join(folder, 'dist/core/errors.js'), 'await Promise.resolve()\n'),
  )
  const found = await failures(await installed(damaged))
  expect(found[0]).toMatch(/^require of holdfast ends with 1: .*ERR_REQUIRE_ASYNC_MODULE/s)
  expect(found.some((failure) => failure.startsWith('import of holdfast '))).toBe(false)
})
