import { backends } from '../rules/backends.ts'
import { exportsMap } from '../rules/exports-map.ts'
import { sizes, sizesExcept } from '../rules/sizes.ts'
import { linesOf, type Specimen } from './specimen.ts'

const SRC = 'packages/holdfast/src'
const HEAD = '/// <reference lib="esnext.disposable" preserve="true" />\n'
const LICENSE = 'MIT License\n'

const PACKAGE = {
  version: '0.1.0',
  files: ['dist', '!dist/.tsbuildinfo', '!dist/sim', 'README.md', 'LICENSE'],
  exports: {
    '.': { types: './dist/index.d.ts', default: './dist/index.js' },
    './package.json': './package.json',
  },
}

/** A package that is right, with one thing changed. */
function packed(
  change: object,
  files: Readonly<Record<string, string>> = {},
): Record<string, string> {
  return {
    LICENSE,
    'packages/holdfast/package.json': JSON.stringify({ ...PACKAGE, ...change }),
    'packages/holdfast/README.md': '# Holdfast\n',
    'packages/holdfast/LICENSE': LICENSE,
    'packages/holdfast/dist/index.js': '',
    'packages/holdfast/dist/index.d.ts': HEAD,
    [`${SRC}/index.ts`]: HEAD,
    ...files,
  }
}

const longFunction = (head: string): string => `${head} {\n${linesOf(69, '  a()')}}\n`

export const SHAPE_SPECIMENS: readonly Specimen[] = [
  {
    rule: sizes,
    run: sizesExcept([]),
    title: 'a file of 401 lines, and the main file of the engine at 251',
    files: {
      'scripts/long.mjs': linesOf(401, '//'),
      'scripts/fits.mjs': linesOf(400, '//'),
      [`${SRC}/lock/lock.ts`]: linesOf(251, '//'),
      'docs/long.md': linesOf(500, 'text'),
    },
    complaints: [
      'scripts/long.mjs: has 401 lines, at most 400 are allowed',
      `${SRC}/lock/lock.ts: has 251 lines, at most 250 are allowed`,
    ],
  },
  {
    rule: sizes,
    run: sizesExcept([]),
    title: 'functions of 71 lines, in every form',
    files: {
      [`${SRC}/lock/wait.ts`]: [
        longFunction('export function declared()'),
        longFunction('const arrow = () =>'),
        longFunction('class Kept { constructor()').replace(/}\n$/, '} }\n'),
        longFunction('class Other { async method()').replace(/}\n$/, '} }\n'),
        longFunction('const named = { key: function ()').replace(/}\n$/, '} }\n'),
      ].join(''),
    },
    complaints: [
      `${SRC}/lock/wait.ts:1: declared has 71 lines, at most 70 are allowed`,
      `${SRC}/lock/wait.ts:72: arrow has 71 lines, at most 70 are allowed`,
      `${SRC}/lock/wait.ts:143: constructor has 71 lines, at most 70 are allowed`,
      `${SRC}/lock/wait.ts:214: method has 71 lines, at most 70 are allowed`,
      `${SRC}/lock/wait.ts:285: key has 71 lines, at most 70 are allowed`,
    ],
  },
  {
    rule: sizes,
    run: sizesExcept([]),
    title: 'a test of 71 lines, though not the group around it',
    files: {
      'packages/cli/test/lab/a.test.ts': [
        "describe('a group', () => {\n",
        `  runner.describe('of groups', () => {\n`,
        `it('is long', async () => {\n${linesOf(69, '  a()')}})\n`,
        '  })\n})\n',
      ].join(''),
    },
    complaints: [
      "packages/cli/test/lab/a.test.ts:3: it('is long') has 71 lines, at most 70 are allowed",
    ],
  },
  {
    rule: sizes,
    run: sizesExcept([]),
    title: 'a suite of which one test has 71 lines, though not the list of its tests',
    files: {
      [`${SRC}/testkit/suite.ts`]: [
        'export function testAll(check: Check): void {\n',
        `  check('is long', async () => {\n${linesOf(69, '  a()')}})\n`,
        '  check(`is short`, (store) => close(store))\n  testMore(check)\n}\n',
        `export function testNone(): void {\n${linesOf(69, "a('is no test')")}}\n`,
      ].join(''),
    },
    complaints: [
      `${SRC}/testkit/suite.ts:2: check('is long') has 71 lines, at most 70 are allowed`,
      `${SRC}/testkit/suite.ts:76: testNone has 71 lines, at most 70 are allowed`,
    ],
  },
  {
    rule: sizes,
    run: sizesExcept([
      { path: 'scripts/long.mjs', reason: 'a table' },
      { path: 'scripts/a.mjs', function: 'long', reason: 'a table' },
      { path: 'scripts/a.mjs', function: 'gone', reason: 'was a table' },
      { path: 'scripts/a.mjs', reason: 'was a table' },
    ]),
    title: 'exceptions that nothing needs any more',
    files: {
      'scripts/long.mjs': linesOf(401, '//'),
      'scripts/a.mjs': longFunction('function long()'),
    },
    complaints: [
      'scripts/a.mjs: needs no exception for gone',
      'scripts/a.mjs: needs no exception for its length',
    ],
  },
  {
    rule: exportsMap,
    title: 'targets that no build gives',
    files: packed({
      exports: {
        ...PACKAGE.exports,
        './redis': { types: './dist/r.d.ts', default: './dist/r.js' },
      },
      main: './dist/main.js',
      bin: { holdfast: './dist/run.js' },
    }),
    complaints: [
      'packages/holdfast/package.json: ./redis: ./dist/r.d.ts is not built',
      'packages/holdfast/package.json: ./redis: ./dist/r.js is not built',
      'packages/holdfast/package.json: main, types, bin: ./dist/main.js is not built',
      'packages/holdfast/package.json: main, types, bin: ./dist/run.js is not built',
    ],
  },
  {
    rule: exportsMap,
    title: 'types that a resolver never reaches',
    files: packed({
      exports: { '.': { default: './dist/index.js', types: './dist/index.d.ts' } },
    }),
    complaints: [
      'packages/holdfast/package.json: exports["."] must have the conditions types, default, in this order',
    ],
  },
  {
    rule: exportsMap,
    title: 'an entry that forgets what its types need',
    files: packed({}, { 'packages/holdfast/dist/index.d.ts': 'export {}\n' }),
    complaints: [
      `packages/holdfast/package.json: exports["."]: ./dist/index.d.ts does not begin with ${HEAD.trim()}`,
    ],
  },
  {
    rule: exportsMap,
    title: 'a file of src that nobody can import',
    files: packed({}, { [`${SRC}/redis.ts`]: HEAD }),
    complaints: ['packages/holdfast/package.json: src/redis.ts is in no entry of the exports map'],
  },
  {
    rule: exportsMap,
    title: 'a tarball without its words, and versions that went apart',
    files: {
      ...packed({ files: ['dist'] }, { 'packages/holdfast/LICENSE': 'Another\n' }),
      'packages/cli/package.json': JSON.stringify({
        files: PACKAGE.files.filter((path) => path !== '!dist/sim'),
        dependencies: { holdfast: '0.0.9' },
      }),
    },
    complaints: [
      'packages/holdfast/package.json: files is "dist", not "dist, !dist/.tsbuildinfo, !dist/sim, README.md, LICENSE"',
      "packages/holdfast/package.json: LICENSE beside it is not the repository's",
      'packages/cli/package.json: README.md is missing beside it',
      "packages/cli/package.json: LICENSE beside it is not the repository's",
      'packages/cli/package.json: depends on holdfast 0.0.9, but that is 0.1.0',
    ],
  },
  { rule: exportsMap, title: 'nothing: a whole package', files: packed({}), complaints: [] },
  {
    rule: backends,
    title: 'a backend that has nothing but code',
    files: {
      'packages/holdfast/package.json': '{"exports": {".": {}}}',
      [`${SRC}/index.ts`]: "export type { etcdBackend } from './backends/etcd/etcd.ts'\n",
      [`${SRC}/backends/etcd/etcd.ts`]: '',
    },
    complaints: [
      `${SRC}/backends/etcd: has no conformance test`,
      `${SRC}/backends/etcd: has no page docs/backends/etcd.md`,
      `${SRC}/backends/etcd: no entry of the package exports it`,
    ],
  },
  {
    rule: backends,
    title: 'a suite of its own instead of the common one',
    files: {
      'packages/holdfast/package.json': '{"exports": {"./etcd": {}}}',
      [`${SRC}/backends/etcd/etcd.ts`]: '',
      [`${SRC}/backends/memory/memory.ts`]: '',
      [`${SRC}/index.ts`]: "export { memoryBackend } from './backends/memory/memory.ts'\n",
      'docs/backends/etcd.md': '',
      'docs/backends/memory.md': '',
      'packages/holdfast/test/conformance/etcd.test.ts': linesOf(26, '//'),
      'packages/holdfast/test/conformance/memory-twice.test.ts': linesOf(25, '//'),
    },
    complaints: [
      'packages/holdfast/test/conformance/etcd.test.ts: has 26 lines, at most 25 are allowed here',
    ],
  },
]
