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
  { find: /^holdfast\/etcd$/, replacement: source('etcd.ts') },
  { find: /^holdfast\/sqlite$/, replacement: source('sqlite.ts') },
  { find: /^holdfast\/election$/, replacement: source('election.ts') },
  { find: /^holdfast\/guards\/postgres$/, replacement: source('guards/postgres.ts') },
  { find: /^holdfast\/guards\/sqlite$/, replacement: source('guards/sqlite.ts') },
  { find: /^holdfast\/testkit$/, replacement: source('testkit/index.ts') },
]

/** Real servers need time to start on a busy machine; a hang is found by this bound, not by luck. */
const slow = { testTimeout: 60_000, hookTimeout: 120_000 }

/** What several runs at once share; see scripts/lib/tests.mjs. */
const SHARE = Number(process.env['HOLDFAST_TEST_WORKERS'] ?? 0)
/** The default, one less than there are cores, would leave one on a small machine. */
const WORKERS = SHARE || Math.max(3, availableParallelism() - 1)

/**
 * Tests that wait for a server for most of their time, and those of one process, which fill the gaps:
 * with three files at a time two cores were idle for half of it, and etcd waits for its disk. They run
 * before the others, which need the cores for programs that they start.
 */
const waiting = { ...slow, maxWorkers: SHARE || WORKERS + 2, sequence: { groupOrder: 0 } }
const working = { sequence: { groupOrder: 1 } }

export default defineConfig({
  test: {
    maxWorkers: WORKERS,
    projects: [
      {
        resolve: { alias },
        test: {
          name: 'unit',
          include: ['packages/holdfast/test/unit/**/*.test.ts'],
          // One of its files compiles the library first, in a hook.
          ...waiting,
        },
      },
      {
        resolve: { alias },
        test: {
          name: 'conformance',
          include: ['packages/holdfast/test/conformance/**/*.test.ts'],
          ...waiting,
        },
      },
      {
        resolve: { alias },
        test: {
          name: 'faults',
          include: ['packages/holdfast/test/faults/**/*.test.ts'],
          ...waiting,
        },
      },
      {
        resolve: { alias },
        test: { name: 'docs', include: ['packages/holdfast/test/docs/**/*.test.ts'], ...waiting },
      },
      {
        test: {
          name: 'package',
          ...working,
          include: ['packages/*/test/package/**/*.test.ts'],
          globalSetup: ['packages/holdfast/test/package/tarballs.setup.ts'],
          testTimeout: 300_000,
          hookTimeout: 300_000,
        },
      },
      {
        test: {
          name: 'servers',
          include: ['packages/cli/test/servers/**/*.test.ts'],
          ...slow,
          ...working,
        },
      },
      {
        test: { name: 'scripts', include: ['scripts/test/**/*.test.mjs'], ...slow, ...working },
      },
      {
        resolve: { alias },
        test: {
          name: 'bench',
          ...working,
          include: ['bench/test/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 120_000,
        },
      },
      {
        test: {
          name: 'lab',
          ...working,
          include: ['packages/cli/test/{lab,redlock}/**/*.test.ts'],
          testTimeout: 300_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
