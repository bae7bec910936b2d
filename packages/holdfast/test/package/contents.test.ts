/** What is in the tarballs. */
import { readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { findFile, readRepository, type TextFile } from '../unit/tidy/repository.ts'
import { exportsMap } from '../unit/tidy/rules/exports-map.ts'
import { broken, filesBelow, packedTarballs, unpacked } from './folders.ts'

const tarballs = packedTarballs()
const repository = readRepository()

/** What the sources of a package must have become, and the words beside them. */
function expectedFiles(folder: string): string[] {
  const built = repository
    .map(({ path }) => path)
    .filter((path) => path.startsWith(`${folder}/src/`) && path.endsWith('.ts'))
    .map((path) => path.slice(`${folder}/src/`.length).replace(/\.ts$/, ''))
    .filter((name) => !name.startsWith('sim/'))
    .flatMap((name) => [`dist/${name}.js`, `dist/${name}.d.ts`])
  return ['LICENSE', 'README.md', 'package.json', ...built].sort()
}

/** The files of an unpacked tarball in the place where the rule looks for them. */
function asBuilt(package_: string, folder: string): TextFile[] {
  return filesBelow(folder).map((path) => ({
    path: `${package_}/${path}`,
    text: readFileSync(join(folder, path), 'utf8'),
  }))
}

async function complaintsAbout(holdfast: string, cli: string): Promise<string[]> {
  return exportsMap([
    ...asBuilt('packages/holdfast', await unpacked(holdfast)),
    ...asBuilt('packages/cli', await unpacked(cli)),
    ...repository.filter(({ path }) => path.startsWith('packages/holdfast/src/')),
    findFile(repository, 'LICENSE') as TextFile,
  ])
}

// The accidents: tests, the simulation or build notes are published; a source that is gone leaves its old output in
// the tarball; the license stays at home.
it.each([
  ['holdfast', 'packages/holdfast'],
  ['cli', 'packages/cli'],
] as const)(
  'the tarball of %s holds what its sources give, and nothing else',
  async (name, folder) => {
    expect(filesBelow(await unpacked(tarballs[name]))).toEqual(expectedFiles(folder))
  },
)

// The accident: an entry of the exports map leads nowhere, and only whoever installs it finds out.
it('every entry leads to a file of the tarball', async () => {
  expect(await complaintsAbout(tarballs.holdfast, tarballs.cli)).toEqual([])
})

it('an entry that leads nowhere is found', async () => {
  const damaged = await broken(tarballs.holdfast, (folder) => {
    rmSync(join(folder, 'dist/index.js'))
  })
  expect(await complaintsAbout(damaged, tarballs.cli)).toEqual([
    'packages/holdfast/package.json: .: ./dist/index.js is not built',
    'packages/holdfast/package.json: main, types, bin: ./dist/index.js is not built',
  ])
})
