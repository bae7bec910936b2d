/** The declaration files, judged by the compilers of consumers, with nothing skipped. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import {
  broken,
  copyInto,
  emptyFolder,
  linkPackages,
  packedTarballs,
  ROOT,
  runNode,
  unpackInto,
} from './folders.ts'

const { holdfast } = packedTarballs()

/** The oldest that is supported, the last of its line, the last one in JavaScript, and ours. */
const COMPILERS = {
  '5.4': 'compilers/typescript-5.4/node_modules/typescript/bin/tsc',
  '5.9': 'compilers/typescript-5.9/node_modules/typescript/bin/tsc',
  '6': 'compilers/typescript-6/node_modules/typescript/bin/tsc',
  '7': 'node_modules/typescript/bin/tsc',
} as const

type Version = keyof typeof COMPILERS

const NODENEXT = { module: 'nodenext', moduleResolution: 'nodenext' }
const BUNDLER = { module: 'esnext', moduleResolution: 'bundler' }
/** `AbortSignal` and `console` come from the DOM's types or from Node's; either will do. */
const BROWSER = { lib: ['es2022', 'dom'], types: [] }
const NODE = { lib: ['es2022'], types: ['node'] }

/** What the compiler says of the files of a folder; null: nothing. */
async function compile(version: Version, folder: string, options: object): Promise<string | null> {
  const compilerOptions = {
    strict: true,
    exactOptionalPropertyTypes: true,
    noUncheckedIndexedAccess: true,
    target: 'es2022',
    skipLibCheck: false,
    skipDefaultLibCheck: true, // The compiler's own files are nobody's fault here.
    noEmit: true,
    ...options,
  }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions }))
  const { code, output } = await runNode(folder, join(ROOT, COMPILERS[version]))
  return code === 0 ? null : output
}

/** What an install gives, without the time that npm takes; install.test.ts has npm itself. */
async function consumer(tarball: string, ...files: readonly string[]): Promise<string> {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}\n')
  mkdirSync(join(folder, 'node_modules/holdfast'), { recursive: true })
  await unpackInto(join(folder, 'node_modules/holdfast'), tarball)
  for (const file of files) copyInto(folder, file)
  return folder
}

/** In a file of its own, beside which all the others must be right. */
const WRONG = `import { createLocks, memoryBackend } from 'holdfast'
await createLocks(memoryBackend()).acquire('a', { ttlMs: '5' })
`

// The accidents: a declaration file uses syntax or a type that consumers' compilers do not have; an
// option becomes required, or a wrong one is accepted. One run of a compiler, a few seconds each, for both.
it.each([
  ['5.4', 'DOM types', { ...NODENEXT, ...BROWSER }],
  ['5.4', 'Node types', { ...NODENEXT, ...NODE }],
  ['5.9', 'Node types', { ...NODENEXT, ...NODE }],
  ['5.9', 'a bundler', { ...BUNDLER, ...BROWSER }],
  ['6', 'Node types', { ...NODENEXT, ...NODE }],
  ['6', 'a bundler', { ...BUNDLER, ...BROWSER }],
  ['7', 'Node types', { ...NODENEXT, ...NODE }],
  ['7', 'a bundler', { ...BUNDLER, ...BROWSER }],
] as const)(
  'TypeScript %s accepts the whole surface and finds a wrong use, with %s',
  async (version, _, options) => {
    const folder = await consumer(holdfast, 'consumer/surface.ts')
    if ((options.types as readonly string[]).includes('node')) linkPackages(folder, ['@types/node'])
    writeFileSync(join(folder, 'wrong.ts'), WRONG)
    const said = (await compile(version, folder, options)) ?? ''
    expect(said.match(/^.*error TS.*$/gm)).toEqual([
      expect.stringMatching(
        /^wrong\.ts\(2,.*: error TS2322: Type 'string' is not assignable to type 'number'/,
      ),
    ])
  },
)

// The accident: the structural types drift away from the clients that people have.
it.each(['5.9', '6', '7'] as const)(
  'TypeScript %s accepts real clients by their own types',
  async (version) => {
    const folder = await consumer(holdfast, 'consumer/drivers.ts')
    const drivers = ['@types/pg', 'ioredis', 'ioredis5', 'pg', 'postgres', 'redis', 'redis5']
    linkPackages(folder, ['@types/node', ...drivers])
    expect(await compile(version, folder, { ...NODENEXT, ...NODE })).toBeNull()
  },
)

// The accident: the first thing that people copy does not compile.
it('TypeScript 7 accepts the code of the README that npm shows', async () => {
  const folder = await consumer(holdfast)
  linkPackages(folder, ['@types/node', '@types/pg', 'ioredis', 'pg'])
  const readme = readFileSync(join(folder, 'node_modules/holdfast/README.md'), 'utf8')
  const snippets = [...readme.matchAll(/^```ts\n(.*?)^```/gms)].map((match) => match[1] ?? '')
  expect(snippets.length).toBeGreaterThan(0)
  for (const [index, text] of snippets.entries()) {
    writeFileSync(join(folder, `snippet-${index}.ts`), text)
  }
  expect(await compile('7', folder, { ...NODENEXT, ...NODE })).toBeNull()
})

it('TypeScript 5.4 finds a declaration file that needs a newer compiler', async () => {
  const damaged = await broken(holdfast, (folder) => {
    const path = join(folder, 'dist/index.d.ts')
    const text = readFileSync(path, 'utf8')
    // What the file would be if the compiler dropped its first line.
    writeFileSync(path, text.replace(/^.*\n/, 'export declare const held: Disposable\n'))
  })
  const folder = await consumer(damaged)
  writeFileSync(join(folder, 'alone.ts'), "import 'holdfast'\n")
  expect(await compile('5.4', folder, { ...NODENEXT, ...BROWSER })).toContain(
    "Cannot find name 'Disposable'",
  )
})
