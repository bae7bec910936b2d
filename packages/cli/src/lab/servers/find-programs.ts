/**
 * Finds the server programs, in this order:
 *
 * 1. `HOLDFAST_SERVERS`, a JSON text of the shape of {@link ServersFound} that `scripts/run.mjs`
 *    hands on to what it starts. What it does not name is missing, with its reason.
 * 2. The machine: PATH, and for PostgreSQL the folders in which Debian keeps its versions, because
 *    `initdb` and `postgres` are not in PATH there.
 * 3. `servers.json` (same shape) in the cache folders, left by an earlier set-up; HOLDFAST_CACHE
 *    names another folder.
 *
 * So a single test file runs without the set-up script, once that script has run on the machine.
 * `HOLDFAST_IGNORE_MACHINE_SERVERS=1` leaves out the second step: it makes a machine that has
 * servers behave like one that has none.
 */
import { accessSync, constants, readdirSync, readFileSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, join } from 'node:path'
import { MissingServerError, type ServerKind } from './missing-server.ts'

/** One server's programs. */
export interface ServerPrograms {
  /** The folder that holds them. */
  readonly folder: string
  /** For LD_LIBRARY_PATH; empty for programs that were installed. */
  readonly libraryPath: string
}

/** What the set-up found; also the shape of `servers.json`. */
export interface ServersFound {
  readonly servers: Readonly<Partial<Record<ServerKind, ServerPrograms>>>
  /** Why a kind is not among them. */
  readonly missing: Readonly<Partial<Record<ServerKind, string>>>
}

/** What must be there for a folder to count. */
const PROGRAMS: Readonly<Record<ServerKind, readonly string[]>> = {
  redis: ['redis-server'],
  postgres: ['postgres', 'initdb'],
  etcd: ['etcd', 'etcdctl'],
}

/** @throws {MissingServerError} when it is nowhere. */
export function findPrograms(kind: ServerKind): ServerPrograms {
  const handedOn = process.env['HOLDFAST_SERVERS']
  if (handedOn !== undefined && handedOn !== '') {
    const found = parseServers(handedOn)
    if (found === null) throw new Error(`HOLDFAST_SERVERS is not the JSON that it should be`)
    const programs = found.servers[kind]
    if (programs === undefined) throw new MissingServerError(kind, found.missing[kind])
    return programs
  }
  const onMachine = ignoresMachine() ? null : findOnMachine(kind)
  if (onMachine !== null) return onMachine
  for (const cache of cacheFolders()) {
    const programs = readServersFile(join(cache, 'servers.json'))?.servers[kind]
    if (programs !== undefined && hasPrograms(kind, programs.folder)) return programs
  }
  throw new MissingServerError(kind)
}

function ignoresMachine(): boolean {
  return process.env['HOLDFAST_IGNORE_MACHINE_SERVERS'] === '1'
}

function findOnMachine(kind: ServerKind): ServerPrograms | null {
  const folders = (process.env['PATH'] ?? '').split(delimiter).filter((folder) => folder !== '')
  if (kind === 'postgres') folders.push(...debianPostgresFolders())
  const folder = folders.find((candidate) => hasPrograms(kind, candidate))
  return folder === undefined ? null : { folder, libraryPath: '' }
}

/** Newest version first. */
function debianPostgresFolders(): string[] {
  const root = '/usr/lib/postgresql'
  try {
    return readdirSync(root)
      .filter((version) => /^\d+$/.test(version))
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => join(root, version, 'bin'))
  } catch {
    return []
  }
}

function hasPrograms(kind: ServerKind, folder: string): boolean {
  return PROGRAMS[kind].every((program) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return statSync(join(folder, program)).isFile()
    } catch {
      return false
    }
  })
}

/** The caches that this user may trust: the own one, and what root unpacked for everybody. */
function cacheFolders(): string[] {
  const elsewhere = process.env['HOLDFAST_CACHE']
  if (elsewhere) return [elsewhere]
  const shared = '/var/cache/holdfast'
  if (process.getuid?.() === 0) return [shared]
  const own = join(process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache'), 'holdfast')
  return isOwnedByRoot(shared) ? [own, shared] : [own]
}

function isOwnedByRoot(folder: string): boolean {
  try {
    return statSync(folder).uid === 0
  } catch {
    return false
  }
}

function readServersFile(path: string): ServersFound | null {
  try {
    return parseServers(readFileSync(path, 'utf8'))
  } catch {
    return null
  }
}

/** Null for anything that is not of the right shape: the text may come from another version. */
function parseServers(text: string): ServersFound | null {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return null
  }
  if (!isRecord(value) || !isRecord(value['servers'])) return null
  const missing = isRecord(value['missing']) ? value['missing'] : {}
  const servers: Partial<Record<ServerKind, ServerPrograms>> = {}
  const reasons: Partial<Record<ServerKind, string>> = {}
  for (const kind of Object.keys(PROGRAMS) as ServerKind[]) {
    const programs = value['servers'][kind]
    const reason = missing[kind]
    if (isRecord(programs) && typeof programs['folder'] === 'string') {
      const libraryPath = programs['libraryPath']
      servers[kind] = {
        folder: programs['folder'],
        libraryPath: typeof libraryPath === 'string' ? libraryPath : '',
      }
    } else if (typeof reason === 'string') reasons[kind] = reason
  }
  return { servers, missing: reasons }
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
