/** The library in a consumer's folder that holds nothing else: no driver, no compiler, no cache. */
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { broken, emptyFolder, installed, packedTarballs, ROOT, runNode } from './folders.ts'

const { holdfast } = packedTarballs()

const { exports } = JSON.parse(
  readFileSync(join(ROOT, 'packages/holdfast/package.json'), 'utf8'),
) as { exports: Record<string, unknown> }

/** `holdfast`, `holdfast/redis`, … */
const SPECIFIERS = Object.keys(exports).map((entry) => `holdfast${entry.slice(1)}`)

/** Loads one entry in a process of its own, which must then end by itself. */
function load(
  folder: string,
  form: 'require' | 'import',
  specifier: string,
  flags: readonly string[],
) {
  const file = join(folder, `load.${form === 'require' ? 'cjs' : 'mjs'}`)
  const attributes = specifier.endsWith('.json') ? ", { with: { type: 'json' } }" : ''
  const expression =
    form === 'require' ? `require('${specifier}')` : `await import('${specifier}'${attributes})`
  writeFileSync(
    file,
    `const names = Object.keys(${expression})\nif (names.length === 0) process.exit(3)\n`,
  )
  return runNode(folder, ...flags, file)
}

/** How `yarn node` starts Node, without the time that Yarn takes. */
function underPlugAndPlay(folder: string): string[] {
  const loader = pathToFileURL(join(folder, '.pnp.loader.mjs')).href
  return ['--require', join(folder, '.pnp.cjs'), '--experimental-loader', loader, '--no-warnings']
}

/** Drivers are peers that nobody needs to have: what `connect` says without one names what to do. */
async function missingDriver(folder: string, flags: readonly string[]): Promise<string[]> {
  const file = join(folder, 'connect.mjs')
  writeFileSync(
    file,
    "import { connect } from 'holdfast/connect'\n" +
      "await connect('redis://127.0.0.1').catch(({ message }) => console.log(message))\n",
  )
  const { output } = await runNode(folder, ...flags, file)
  const wanted = 'redis is not installed; run: npm install ioredis, or npm install redis\n'
  return output.endsWith(wanted) ? [] : [`connect without a driver says: ${output}`]
}

/** What goes wrong, entry by entry. */
async function failures(
  folder: string,
  flags: readonly string[] = [],
  specifiers: readonly string[] = SPECIFIERS,
): Promise<string[]> {
  const found: string[] = []
  for (const specifier of specifiers) {
    for (const form of ['require', 'import'] as const) {
      const { code, output } = await load(folder, form, specifier, flags)
      if (code !== 0) found.push(`${form} of ${specifier} ends with ${code}: ${output}`)
    }
  }
  found.push(...(await missingDriver(folder, flags)))
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

// The accidents: without node_modules a package sees only what it declares; and Node cannot `require` a
// module inside an archive, which is why the package asks Yarn to unpack it (`preferUnplugged`).
it('Yarn installs it offline under Plug and Play, and every entry loads without a driver', async () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}\n')
  writeFileSync(
    join(folder, '.yarnrc.yml'),
    'nodeLinker: pnp\nenableGlobalCache: false\nenableTelemetry: false\nenableNetwork: false\n',
  )
  // Or Yarn would look for a project in the folders above.
  writeFileSync(join(folder, 'yarn.lock'), '')
  const yarn = join(ROOT, 'node_modules/@yarnpkg/cli-dist/bin/yarn.js')
  const { code, output } = await runNode(folder, yarn, 'add', `holdfast@file:${holdfast}`)
  expect({ code, output }).toMatchObject({ code: 0 })
  expect(existsSync(join(folder, '.pnp.cjs'))).toBe(true)
  expect(existsSync(join(folder, 'node_modules'))).toBe(false)
  expect(await failures(folder, underPlugAndPlay(folder))).toEqual([])
})

// The accident: somebody builds on a file that we never meant to publish, and breaks with it.
it('only the entries of the exports map can be imported', async () => {
  const folder = await installed(holdfast)
  for (const form of ['require', 'import'] as const) {
    const { code, output } = await load(folder, form, 'holdfast/dist/core/clock.js', [])
    expect(code).toBe(1)
    expect(output).toContain('ERR_PACKAGE_PATH_NOT_EXPORTED')
  }
})

it('an entry that needs a driver is found', async () => {
  const damaged = await broken(holdfast, (folder) =>
    appendFileSync(join(folder, 'dist/core/errors.js'), "import 'ioredis'\n"),
  )
  const found = await failures(await installed(damaged), [], ['holdfast'])
  expect(found[0]).toMatch(/^require of holdfast ends with 1: .*Cannot find package 'ioredis'/s)
})

it('an entry that cannot be required is found', async () => {
  const damaged = await broken(holdfast, (folder) =>
    appendFileSync(join(folder, 'dist/core/errors.js'), 'await Promise.resolve()\n'),
  )
  const found = await failures(await installed(damaged), [], ['holdfast'])
  expect(found[0]).toMatch(/^require of holdfast ends with 1: .*ERR_REQUIRE_ASYNC_MODULE/s)
  expect(found.some((failure) => failure.startsWith('import of holdfast '))).toBe(false)
})
