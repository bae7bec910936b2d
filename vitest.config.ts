import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineConfig } from 'vitest/config'

const source = (path: string): string =>
  fileURLToPath(new URL(`./packages/holdfast/src/${path}`, import.meta.url))

/** Tests run on the sources, so that a failure names a line that someone wrote. */
const alias = [
  { find: /^holdfast$/, replacement: source('index.ts') },
  { find: /^holdfast\/connect$/, replacement: source('connect.ts') },
  { find: /^holdfast\/redis$/, replacement: source('redis.ts') },
  { find: /^holdfast\/redlock$/, replacement: source('redlock.ts') },
  { find: /^holdfast\/sqlite$/, replacement: source('sqlite.ts') },
  { find: /^holdfast\/guards\/postgres$/, replacement: source('guards/postgres.ts') },
  { find: /^holdfast\/guards\/sqlite$/, replacement: source('guards/sqlite.ts') },
  { find: /^holdfast\/testkit$/, replacement: source('testkit/index.ts') },
]

/** Real servers need time to start on a busy machine; a hang is found by this bound, not by luck. */
const slow = { testTimeout: 60_000, hookTimeout: 120_000 }

export default defineConfig({
  test: {
    // Most of a test's time is spent waiting for a server: with two at a time, two cores are idle for a
    // third to a half of it. The default, one less than there are cores, would leave one on a small machine.
    maxWorkers: Math.max(3, availableParallelism() - 1),
    projects: [
      {
        resolve: { alias },
        test: {
          name: 'unit',
          include: ['packages/holdfast/test/unit/**/*.test.ts'],
          testTimeout: 30_000,
          // One of its files compiles the library first.
          hookTimeout: 120_000,
        },
      },
      {
        resolve: { alias },
        test: {
          name: 'conformance',
          include: ['packages/holdfast/test/conformance/**/*.test.ts'],
          ...slow,
        },
      },
      {
        resolve: { alias },
        test: { name: 'faults', include: ['packages/holdfast/test/faults/**/*.test.ts'], ...slow },
      },
      {
        resolve: { alias },
        test: { name: 'docs', include: ['packages/holdfast/test/docs/**/*.test.ts'], ...slow },
      },
      {
        test: {
          name: 'package',
          include: ['packages/*/test/package/**/*.test.ts'],
          globalSetup: ['packages/holdfast/test/package/tarballs.setup.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: { name: 'servers', include: ['packages/cli/test/servers/**/*.test.ts'], ...slow },
      },
      {
        test: { name: 'scripts', include: ['scripts/test/**/*.test.mjs'], ...slow },
      },
      {
        resolve: { alias },
        test: {
          name: 'bench',
          include: ['bench/test/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'lab',
          include: ['packages/cli/test/{lab,redlock}/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
