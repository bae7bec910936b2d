/**
 * The packages that talk to stores: which one is taken, and what it means if it cannot be loaded.
 *
 * They are optional peers, imported when `connect` needs them and not before. Each stands as a literal
 * inside a `try`, so that bundlers see it and take a missing one for optional.
 */
import { createRequire } from 'node:module'
import { InvalidArgumentError } from '../core/errors.ts'

export type DriverName = 'ioredis' | 'redis' | 'better-sqlite3' | 'node:sqlite'

export interface Driver {
  readonly name: DriverName
  /** What of it is called is the business of whoever asked for it. */
  readonly module: unknown
}

type Loaded = Readonly<{ module: unknown } | { error: unknown }>

/** Where drivers come from. Tests load other versions. */
export interface DriverSource {
  load(name: DriverName): Promise<Loaded>
  /** Null: it cannot be told, as inside of a bundle. */
  version(name: DriverName): string | null
}

interface Support {
  readonly store: 'Redis' | 'SQLite'
  /** Empty: whatever there is. */
  readonly majors: readonly number[]
  readonly install: string
  /** Where it is installed and does not load; `install` would change nothing. */
  readonly repair?: string
}

const SUPPORT: Readonly<Record<DriverName, Support>> = {
  ioredis: { store: 'Redis', majors: [5, 6], install: 'npm install ioredis' },
  redis: { store: 'Redis', majors: [5, 6], install: 'npm install redis' },
  'better-sqlite3': {
    store: 'SQLite',
    majors: [12],
    install: 'npm install better-sqlite3@12',
    repair: 'npm rebuild better-sqlite3',
  },
  'node:sqlite': { store: 'SQLite', majors: [], install: 'use Node 22.13 or newer' },
}

export const installedDrivers: DriverSource = {
  async load(name) {
    try {
      if (name === 'ioredis') return { module: await import('ioredis') }
      if (name === 'redis') return { module: await import('redis') }
      if (name === 'better-sqlite3') return { module: await loadBetterSqlite() }
      const module = process.getBuiltinModule('node:sqlite')
      return module === undefined ? { error: undefined } : { module }
    } catch (error) {
      return { error }
    }
  },
  version(name) {
    if (name.startsWith('node:')) return null
    try {
      const { version } = createRequire(import.meta.url)(`${name}/package.json`)
      return String(version)
    } catch {
      return null
    }
  },
}

/** Its compiled part is loaded with the first database: one for another Node is found out here. */
async function loadBetterSqlite(): Promise<unknown> {
  const { default: Database } = await import('better-sqlite3')
  new Database(':memory:').close()
  return Database
}

/**
 * The driver of the option, or else the first of `names` that is there.
 *
 * @param names Those that serve a scheme, the preferred one first.
 * @throws InvalidArgumentError with the line that installs one.
 */
export async function chooseDriver(
  source: DriverSource,
  names: readonly DriverName[],
  wanted: unknown,
): Promise<Driver> {
  const isOne = wanted === undefined || names.includes(wanted as DriverName)
  if (!isOne) {
    const allowed = names.map((name) => `'${name}'`).join(' or ')
    throw new InvalidArgumentError('driver', wanted, `${allowed}, for this scheme`)
  }
  const candidates = wanted === undefined ? names : [wanted as DriverName]
  const failures: Failure[] = []
  for (const name of candidates) {
    const loaded = await source.load(name)
    if ('module' in loaded) {
      checkMajor(name, source.version(name))
      return { name, module: loaded.module }
    }
    failures.push(whyNot(name, loaded.error))
  }
  const { store } = SUPPORT[names[0] as DriverName]
  const why = failures.map((one) => one.why).join(', ')
  const remedies = failures.map(({ remedy }) => remedy).join(', or ')
  const allowed = `one that loads: ${why}; run: ${remedies}`
  // Who gave no option has made no mistake in it.
  const words =
    wanted === undefined ? `no driver for ${store}: ${why}; run: ${remedies}` : undefined
  throw new InvalidArgumentError('driver', wanted, allowed, words)
}

interface Failure {
  readonly why: string
  readonly remedy: string
}

function whyNot(name: DriverName, error: unknown): Failure {
  const { install, repair = install } = SUPPORT[name]
  if (name === 'node:sqlite') return { why: 'this Node has no node:sqlite', remedy: install }
  const { code, message } = (error ?? {}) as { code?: unknown; message?: unknown }
  // As Node, a bundler and Yarn say it; of another package it means that this one is broken.
  const isMissing = new RegExp(`['"]${name}['"]|tried to access ${name} `).test(String(message))
  if (isMissing) return { why: `${name} is not installed`, remedy: install }
  if (typeof code === 'string') {
    return { why: `${name} is installed but does not load (${code})`, remedy: repair }
  }
  // Package managers that run no scripts leave it without; so does a bundle.
  const isHalf = String(message).startsWith('Could not locate the bindings file')
  const words = isHalf ? 'its compiled part is not there' : 'no code'
  const remedy = `${repair} (in a bundle, leave it external)`
  return { why: `${name} is installed but does not load (${words})`, remedy }
}

function checkMajor(name: DriverName, version: string | null): void {
  const { majors, install } = SUPPORT[name]
  const major = Number(version?.split('.')[0])
  if (version === null || majors.length === 0 || majors.includes(major)) return
  const allowed = `version ${majors.join(' or ')}; run: ${install}, or choose another driver`
  throw new InvalidArgumentError('driver', `${name} ${version}`, allowed)
}
