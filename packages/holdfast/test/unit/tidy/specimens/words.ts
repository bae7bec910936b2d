import { errorDocs } from '../rules/error-docs.ts'
import { lockFile, registryHosts } from '../rules/lock-file.ts'
import { assertions, emptyCatches, leftOut } from '../rules/tests.ts'
import { machinePaths, markers } from '../rules/text.ts'
import type { Specimen } from './specimen.ts'

const ERRORS = 'packages/holdfast/src/core/errors.ts'
const PAGE = 'docs/errors.md'
const TEST = 'packages/holdfast/test/unit/a.test.ts'

/** Made of parts, or the rules about words would complain about this file. */
const join = (...parts: string[]): string => parts.join('')
const LATER = join('TO', 'DO')
const BROKEN = join('FIX', 'ME')
const MACHINE = join('/', 'home')

const SOURCE = `
export type LockErrorCode = 'LOCK_HELD' | 'CLOSED'
export type LossReason = 'expired'
export type UnavailableReason = 'down' | 'loading'
export class ClosedError extends Error {}
`

export const WORD_SPECIMENS: readonly Specimen[] = [
  {
    rule: errorDocs,
    title: 'a page that lost a code, invents one, and says one twice',
    files: {
      [ERRORS]: SOURCE,
      [PAGE]: [
        '## Codes',
        '| code | meaning |',
        '| --- | --- |',
        '| `LOCK_HELD` | taken |',
        '| `LOCK_HELD` | taken |',
        '| `BUSY` | taken |',
        '## Why a lease was lost',
        '| `expired` | over |',
        '## Why a store is unavailable',
        '| `down` | off |',
        '## Others',
        '| `loading` | not here |',
      ].join('\n'),
    },
    complaints: [
      `${PAGE}: "## Codes" has no row for CLOSED of LockErrorCode`,
      `${PAGE}: "## Codes" has a row for BUSY, which LockErrorCode has not`,
      `${PAGE}: "## Codes" has two rows for LOCK_HELD`,
      `${PAGE}: "## Why a store is unavailable" has no row for loading of UnavailableReason`,
      `${PAGE}: does not name the class ClosedError`,
    ],
  },
  {
    rule: errorDocs,
    title: 'no page at all',
    files: { [ERRORS]: SOURCE },
    complaints: [`${PAGE}: is missing`],
  },
  {
    rule: markers,
    title: 'work that was put off',
    files: {
      'docs/a.md': `All is well.\n${LATER}: say more.\n`,
      'scripts/a.mjs': `// ${BROKEN}\nconst ${LATER}S = 1\n`,
    },
    complaints: [`docs/a.md:2: ${LATER} is left over`, `scripts/a.mjs:1: ${BROKEN} is left over`],
  },
  {
    rule: machinePaths,
    title: 'a path of the author, though not of a site or below a folder',
    files: {
      'docs/a.md': `See ${MACHINE}/me/a.txt, https://example.test${MACHINE}/a and docs${MACHINE}.\n`,
    },
    complaints: [`docs/a.md:1: ${MACHINE} is a path of one machine`],
  },
  {
    rule: lockFile,
    title: 'dependencies that were not to be had when it was written',
    files: {
      'package-lock.json': JSON.stringify({
        packages: {
          '': { devDependencies: { a: '1', lost: '1' } },
          'packages/x': { dependencies: { a: '1', '@s/b': '2' } },
          'packages/x/node_modules/@s/b': { devDependencies: { unseen: '1' } },
          'node_modules/a': { optionalDependencies: { '@s/b': '1' }, dependencies: { c: '1' } },
          'node_modules/a/node_modules/c': { dependencies: { a: '1' } },
          'node_modules/x': { resolved: 'packages/x', link: true },
        },
      }),
    },
    complaints: [
      'package-lock.json: "" depends on lost, which has no entry',
      'package-lock.json: "node_modules/a" depends on @s/b, which has no entry',
    ],
  },
  {
    rule: registryHosts,
    title: 'a lock file and a configuration that choose the registry for everybody',
    files: {
      'package-lock.json': [
        '"node_modules/a": {',
        '  "resolved": "https://registry.example.test/a/-/a-1.0.0.tgz",',
        '  "resolved": "packages/holdfast",',
        '  "resolved": "git+ssh://git@example.test/b.git"',
      ].join('\n'),
      '.npmrc': 'fund=false\nregistry=https://registry.example.test\n',
    },
    complaints: [
      'package-lock.json:2: names a registry',
      'package-lock.json:4: names a registry',
      '.npmrc:2: names a registry',
    ],
  },
  {
    rule: leftOut,
    title: 'tests that do not run',
    files: {
      [TEST]: [
        "it.skip('a', () => {})",
        "describe.only.each([1])('b', () => {})",
        "test.todo('c')",
        'it.only`d`',
        "it('e', (context) => context.skip('no server'))",
        'expect(page.skip).toBe(limit)',
        'const { only } = options',
      ].join('\n'),
    },
    complaints: [
      `${TEST}:1: leaves tests out by .skip`,
      `${TEST}:2: leaves tests out by .only`,
      `${TEST}:3: leaves tests out by .todo`,
      `${TEST}:4: leaves tests out by .only`,
      `${TEST}:5: leaves tests out by .skip`,
    ],
  },
  {
    rule: leftOut,
    title: 'tests that run on some machines only, and nobody hears of it',
    files: {
      [TEST]: "describe.skipIf(!hasCompiler)('a', () => {})\nit.runIf(isRoot)('b', () => {})\n",
    },
    complaints: [
      `${TEST}:1: leaves tests out by .skipIf and never says why`,
      `${TEST}:2: leaves tests out by .runIf and never says why`,
    ],
  },
  {
    rule: leftOut,
    title: 'nothing: the reason is printed',
    files: {
      [TEST]: "if (!isRoot) console.warn('only root can')\nit.runIf(isRoot)('a', () => {})\n",
    },
    complaints: [],
  },
  {
    rule: assertions,
    title: 'a test file that only runs things, and one that expects nothing of them',
    files: {
      [TEST]: "it('a', async () => { await locks.close() })\n",
      'scripts/test/b.test.mjs': "it('b', () => {\n  expect(1)\n  expect.soft(2).toBe(2)\n})\n",
    },
    complaints: [
      `${TEST}: asserts nothing`,
      'scripts/test/b.test.mjs:2: expects nothing of what it is given',
    ],
  },
  {
    rule: assertions,
    title: 'nothing: three ways to assert, and a file that is no test',
    files: {
      [TEST]: "import { equal as same } from 'node:assert/strict'\nit('a', () => same(1, 1))\n",
      'packages/holdfast/test/unit/b.test.ts': "import a from 'node:assert'\na.ok(true)\n",
      'packages/holdfast/test/conformance/c.test.ts':
        "import { testBackend } from 'holdfast/testkit'\ntestBackend({}, {})\n",
      'packages/holdfast/test/unit/helper.ts': 'run()\n',
    },
    complaints: [],
  },
  {
    rule: emptyCatches,
    title: 'errors that vanish',
    files: {
      'packages/cli/src/a.ts': [
        'try { a() } catch {}',
        'try { a() } catch (error) {',
        '}',
        'b().catch(() => {})',
        'b().then(c, function () {})',
      ].join('\n'),
    },
    complaints: [
      'packages/cli/src/a.ts:1: drops an error without a comment that says why',
      'packages/cli/src/a.ts:2: drops an error without a comment that says why',
      'packages/cli/src/a.ts:4: drops an error without a comment that says why',
      'packages/cli/src/a.ts:5: drops an error without a comment that says why',
    ],
  },
  {
    rule: emptyCatches,
    title: 'nothing: errors that vanish for a reason, or do not vanish',
    files: {
      'packages/cli/src/a.ts': [
        'try { a() } catch {',
        '  // It is gone already.',
        '}',
        '// Reported by the event.',
        'b().catch(() => {})',
        'b().catch(() => { /* Told by the signal. */ })',
        'b().catch(() => null)',
        'b().then(() => {})',
      ].join('\n'),
    },
    complaints: [],
  },
]
