/** Applies a mutant to a copy of the sources, compiles the copy, and simulates it. */
import { execFile } from 'node:child_process'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Invariant } from './invariants.ts'
import type { Mutant, Patch } from './mutants.ts'
import type { runSchedule } from './world.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const SOURCE = join(ROOT, 'packages/holdfast/src')
const COMPILE_MS_MAX = 120_000

export type Verdict = Readonly<{
  name: string
  caught: 'simulation' | false
  seed: number | null
  invariant: Invariant | null
}>

/** @throws Error when the text does not stand in it exactly once. */
export function patched(source: string, { name, file, text, replacement }: Patch): string {
  const count = source.split(text).length - 1
  if (count !== 1) throw new Error(`mutant ${name}: its text stands ${count} times in ${file}`)
  return source.replace(text, () => replacement)
}

export function readSource({ file }: Patch): string {
  return readFileSync(join(SOURCE, file), 'utf8')
}

/** @param seeds The first seed, and how many are tried until one shows the bug. */
export async function judge(
  mutant: Mutant,
  seeds: Readonly<{ first: number; count: number }>,
): Promise<Verdict> {
  return withMutant(mutant, async (folder) => {
    const world = await import(pathToFileURL(join(folder, 'world.js')).href)
    const run: typeof runSchedule = world.runSchedule
    for (let seed = seeds.first; seed < seeds.first + seeds.count; seed++) {
      const { violations } = await run(seed, mutant.scenario)
      const [first] = violations
      if (first === undefined) continue
      return { name: mutant.name, caught: 'simulation', seed, invariant: first.invariant }
    }
    return { name: mutant.name, caught: false, seed: null, invariant: null }
  })
}

/** @param use Is given the folder of the compiled simulation. */
export async function withMutant<T>(
  mutant: Mutant,
  use: (folder: string) => Promise<T>,
): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-mutant-'))
  try {
    await compile(mutant, folder)
    return await use(join(folder, 'dist/sim'))
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function compile(mutant: Mutant, folder: string): Promise<void> {
  cpSync(SOURCE, join(folder, 'src'), { recursive: true })
  writeFileSync(join(folder, 'src', mutant.file), patched(readSource(mutant), mutant))
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}\n')
  // A bug may leave a variable unused; what it does to types is no matter either.
  const compilerOptions = {
    rootDir: 'src',
    outDir: 'dist',
    noCheck: true,
    declaration: false,
    isolatedDeclarations: false,
    types: [],
  }
  const config = { extends: join(ROOT, 'tsconfig.base.json'), compilerOptions, include: ['src'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  await promisify(execFile)(process.execPath, [compiler, '-p', folder], { timeout: COMPILE_MS_MAX })
}
