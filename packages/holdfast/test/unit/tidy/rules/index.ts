/**
 * The rules by the property that each keeps. `exportsMap` is not among them: it needs the build, so
 * test/package runs it.
 */
import type { Rule } from '../repository.ts'
import { backends } from './backends.ts'
import { clocks } from './clocks.ts'
import { errorDocs } from './error-docs.ts'
import { cycles, layers } from './layers.ts'
import { lockFile, registryHosts } from './lock-file.ts'
import { luaHeaders } from './lua-headers.ts'
import { sizes } from './sizes.ts'
import { assertions, emptyCatches, leftOut } from './tests.ts'
import { machinePaths, markers } from './text.ts'

export const RULES: Readonly<Record<string, Rule>> = {
  'imports point down the layers only': layers,
  'no module imports itself in a circle': cycles,
  'files and functions fit one sitting': sizes,
  'clocks, timers and randomness are read in two files only': clocks,
  'the headers of Lua scripts name what they use': luaHeaders,
  'docs/errors.md explains every code, and no other': errorDocs,
  'every backend has a suite, a page and an entry': backends,
  'no marker is left behind': markers,
  'no path of one machine is written down': machinePaths,
  'the lock file has an entry for every dependency': lockFile,
  'no install is sent to a named registry': registryHosts,
  'no test is left out': leftOut,
  'every test file asserts something': assertions,
  'no error is dropped without a reason': emptyCatches,
}
