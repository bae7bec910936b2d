/** Applies mutants to copies of the sources, compiles them all at once, and simulates each. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Invariant } from './invariants.ts'
import type { Elsewhere, Mutant, Patch } from './mutants.ts'
import type { runSchedule } from './world.ts'

const ROOT = fileURLToPath(new URL('../../../../', import.meta.url))
const SOURCE = join(ROOT, 'packages/holdfast/src')
const SUPPORT = join(ROOT, 'packages/holdfast/test/support')
const NODE_MUTANT_FILES = [
  'node-mutants',
  'redlock-node-mutants',
  'redlock-admission-mutants',
] as const
const COMPILE_MS_MAX = 120_000

export type Verdict = Readonly<{
  name: string
  caught: 'simulation' | Elsewhere['caught'] | false
  seed: number | null
  invariant: Invariant | null
}>

/** Which seeds are tried until one shows the bug. `first` null: the known one, then from 1 on. */
export type Seeds = Readonly<{ first: number | null; count: number }>

/** @throws Error when the text does not stand in it exactly once. */
export function patched(source: string, { name, file, text, replacement }: Patch): string {
  const count = source.split(text).length - 1
  if (count !== 1) throw new Error(`mutant ${name}: its text stands ${count} times in ${file}`)
  return source.replace(text, () => replacement)
}

export function readSource({ file }: Pick<Patch, 'file'>): string {
  return readFileSync(join(SOURCE, file), 'utf8')
}

/** The files that a mutant changes, each with all its patches. */
export function patchedFiles({ patches }: Mutant): ReadonlyMap<string, string> {
  const files = new Map<string, string>()
  for (const patch of patches) {
    files.set(patch.file, patched(files.get(patch.file) ?? readSource(patch), patch))
  }
  return files
}

/** A folder in which each mutant has a compiled copy of its own, made when it is asked for. */
export class Mutants {
  readonly #folder: string
  readonly #places = new Map<string, number>()

  private constructor(folder: string) {
    this.#folder = folder
  }

  /** Compiles the sources once, and beside them the changed files of every mutant. */
  static async compile(mutants: readonly Mutant[]): Promise<Mutants> {
    const made = new Mutants(mkdtempSync(join(tmpdir(), 'holdfast-mutants-')))
    try {
      cpSync(SOURCE, join(made.#folder, 'in/src'), { recursive: true })
      mutants.forEach((mutant, place) => {
        made.#places.set(mutant.name, place)
        for (const [file, text] of patchedFiles(mutant)) {
          write(join(made.#folder, 'in', String(place), file), text)
        }
      })
      await compile(made.#folder)
      return made
    } catch (error) {
      made.remove()
      throw error
    }
  }

  /** For another thread, which {@link at} takes it up from. */
  get folder(): string {
    return this.#folder
  }

  /** Those that another thread has compiled, in the order in which it was given them. */
  static at(folder: string, mutants: readonly Mutant[]): Mutants {
    const made = new Mutants(folder)
    mutants.forEach(({ name }, place) => void made.#places.set(name, place))
    return made
  }

  /** @returns The folder of its compiled simulation. */
  folderOf({ name }: Mutant): string {
    const place = this.#places.get(name)
    if (place === undefined) throw new Error(`mutant ${name} was not compiled`)
    const own = join(this.#folder, 'run', String(place))
    // Whole, because a module finds what it imports beside itself.
    cpSync(join(this.#folder, 'out/src'), own, { recursive: true })
    cpSync(join(this.#folder, 'out', String(place)), own, { recursive: true })
    return join(own, 'sim')
  }

  async judge(mutant: Mutant, seeds: Seeds): Promise<Verdict> {
    const { name, scenario, world } = mutant
    const copy = await import(pathToFileURL(join(this.folderOf(mutant), 'world.js')).href)
    const run: typeof runSchedule = copy.runSchedule
    for (const seed of seedsFor(mutant, seeds)) {
      const invariant = await firstBroken(() => run(seed, scenario, false, world))
      if (invariant !== null) return { name, caught: 'simulation', seed, invariant }
    }
    return { name, caught: false, seed: null, invariant: null }
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** A bug that makes the simulation itself fail is found too. */
async function firstBroken(run: () => ReturnType<typeof runSchedule>): Promise<Invariant | null> {
  try {
    const { violations } = await run()
    return violations[0]?.invariant ?? null
  } catch {
    return 'error'
  }
}

function* seedsFor({ seed: known }: Mutant, { first, count }: Seeds) {
  if (first === null) yield known
  for (let place = 0; place < count; place++) yield (first ?? 1) + place
}

/** The bugs of lock nodes, which the comparison with a real Redis shares. */
export async function readNodeMutants(): Promise<readonly NodeMutant[]> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-node-mutants-'))
  try {
    for (const name of NODE_MUTANT_FILES) {
      write(join(folder, `in/src/${name}.ts`), readFileSync(join(SUPPORT, `${name}.ts`), 'utf8'))
    }
    await compile(folder)
    const compiled = (name: string): string =>
      pathToFileURL(join(folder, `out/src/${name}.js`)).href
    const { NODE_MUTANTS } = await import(compiled('node-mutants'))
    const { REDLOCK_NODE_MUTANTS } = await import(compiled('redlock-node-mutants'))
    return [...NODE_MUTANTS, ...REDLOCK_NODE_MUTANTS]
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

export type NodeMutant = Readonly<{ name: string; lua: Patch; model: Patch }>

function write(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

async function compile(folder: string): Promise<void> {
  writeFileSync(join(folder, 'package.json'), '{"type": "module"}\n')
  // A bug may leave a variable unused; what it does to types is no matter either.
  const compilerOptions = {
    rootDir: 'in',
    outDir: 'out',
    noCheck: true,
    declaration: false,
    isolatedDeclarations: false,
    types: [],
  }
  const config = { extends: join(ROOT, 'tsconfig.base.json'), compilerOptions, include: ['in'] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc')
  await promisify(execFile)(process.execPath, [compiler, '-p', folder], { timeout: COMPILE_MS_MAX })
}
