/**
 * Finds the servers that the lab and the tests need, and unpacks those that the machine lacks.
 *
 *     <cache>/unpacked/<release>/redis/       what `dpkg-deb -x` gave: usr/bin, usr/lib, ...
 *     <cache>/unpacked/<release>/postgres/
 *     <cache>/unpacked/<release>/etcd/
 *     <cache>/servers.json                    {servers: {redis: {folder, libraryPath}}, missing: {}}
 *
 * A folder is unpacked under another name and renamed when it is whole, so an interrupted unpack
 * does not count as done. `<release>` is, for example, `debian-12-x64`: after an upgrade of the
 * system the old programs may not fit its libraries any more.
 *
 * `servers.json` is for whoever runs a single test file without this script; it lists only what was
 * unpacked. What this script starts gets the same shape, with the machine's own servers in it, in
 * HOLDFAST_SERVERS. The reader of both is packages/cli/src/lab/servers/find-programs.ts.
 */
import {
  accessSync,
  constants,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { arch } from 'node:os'
import { delimiter, join } from 'node:path'
import { cacheFolder, makeCacheFolder, SHARED_CACHE } from './cache-folder.mjs'
import { unpackPackages, whyNoPackages } from './debian-packages.mjs'
import { withLockFolder } from './lock-folder.mjs'
import { SetupError, say } from './progress.mjs'

const KINDS = {
  redis: {
    title: 'redis-server',
    programs: ['redis-server'],
    // redis-server is a link to a program of redis-tools: both, or the link leads nowhere.
    packages: ['redis-server', 'redis-tools'],
    folders: () => ['usr/bin'],
  },
  postgres: {
    title: 'PostgreSQL',
    programs: ['postgres', 'initdb'],
    packages: ['postgresql'],
    folders: (root) => postgresFolders(join(root, 'usr/lib/postgresql'), 'usr/lib/postgresql'),
  },
  etcd: {
    title: 'etcd',
    // The command line too: its locks are other people's locks, which ours must exclude.
    programs: ['etcd', 'etcdctl'],
    packages: ['etcd-server', 'etcd-client'],
    folders: () => ['usr/bin'],
  },
}

/**
 * @param tell Gets a line for each server that cannot be had.
 * @returns `{servers, missing}`; a kind is in exactly one of them. Nothing is thrown for a server
 * that cannot be had: the reason is in `missing`.
 */
export async function findServers(tell = say) {
  const found = { servers: {}, missing: {} }
  for (const [kind, description] of Object.entries(KINDS)) {
    const programs = findOnMachine(kind) ?? findUnpacked(kind)
    if (programs !== null) {
      found.servers[kind] = programs
      continue
    }
    try {
      found.servers[kind] = await unpack(kind)
    } catch (error) {
      if (!(error instanceof SetupError)) throw error
      found.missing[kind] = error.message
      tell(`${description.title} is not on this machine and cannot be unpacked: ${error.message}`)
    }
  }
  return found
}

function findOnMachine(kind) {
  if (process.env.HOLDFAST_IGNORE_MACHINE_SERVERS === '1') return null
  const folders = (process.env.PATH ?? '').split(delimiter).filter((folder) => folder !== '')
  if (kind === 'postgres') {
    const root = '/usr/lib/postgresql'
    folders.push(...postgresFolders(root, root))
  }
  const folder = folders.find((candidate) => hasPrograms(kind, candidate))
  return folder === undefined ? null : { folder, libraryPath: '' }
}

/** What this user unpacked before, or root for everybody. */
function findUnpacked(kind) {
  for (const cache of cacheFolders()) {
    const programs = describeUnpacked(kind, unpackedFolder(cache, kind))
    if (programs !== null) return programs
  }
  return null
}

function cacheFolders() {
  const own = cacheFolder()
  const isShared = !process.env.HOLDFAST_CACHE && isOwnedByRoot(SHARED_CACHE)
  return isShared && own !== SHARED_CACHE ? [own, SHARED_CACHE] : [own]
}

/** Downloads and unpacks one kind, whatever the machine has. @throws {SetupError} if it cannot. */
export async function unpack(kind) {
  const reason = whyNoPackages()
  if (reason !== null) throw new SetupError(reason)
  const cache = makeCacheFolder()
  return withLockFolder(join(cache, 'servers.lock'), async () => {
    const target = unpackedFolder(cache, kind)
    const already = describeUnpacked(kind, target) // By whoever held the lock before us.
    if (already !== null) return already
    say(`unpacking ${KINDS[kind].title} into ${target}`)
    const temporary = `${target}.new`
    rmSync(temporary, { recursive: true, force: true })
    makePublicFolder(temporary)
    try {
      await unpackPackages(KINDS[kind].packages, temporary)
      if (describeUnpacked(kind, temporary) === null) {
        throw new SetupError(`the packages ${KINDS[kind].packages.join(', ')} lack the programs`)
      }
      rmSync(target, { recursive: true, force: true })
      renameSync(temporary, target)
    } finally {
      rmSync(temporary, { recursive: true, force: true })
    }
    const programs = describeUnpacked(kind, target)
    writeServersFile(cache, kind, programs)
    return programs
  })
}

/** Where a kind lies when it is whole. */
export function unpackedFolder(cache, kind) {
  return join(cache, 'unpacked', releaseName(), kind)
}

function makePublicFolder(folder) {
  const before = process.umask(0o022)
  try {
    mkdirSync(folder, { recursive: true })
  } finally {
    process.umask(before)
  }
}

/** The programs in an unpacked folder; null when they are not all there. */
function describeUnpacked(kind, root) {
  for (const relative of KINDS[kind].folders(root)) {
    const folder = join(root, relative)
    if (hasPrograms(kind, folder)) return { folder, libraryPath: libraryFolders(root).join(':') }
  }
  return null
}

/** Every folder below usr/lib and lib that holds a shared library, /usr/lib/x86_64-linux-gnu first. */
function libraryFolders(root) {
  const found = []
  for (const base of ['usr/lib', 'lib', 'usr/lib64']) {
    const top = join(root, base)
    if (!existsSync(top)) continue
    const below = readdirSync(top, { withFileTypes: true })
      .filter((entry) => entry.isDirectory() && entry.name.includes('-linux-'))
      .map((entry) => join(top, entry.name))
    found.push(...[...below, top].filter(holdsLibrary))
  }
  return found
}

function holdsLibrary(folder) {
  return readdirSync(folder).some((name) => /\.so(\.|$)/.test(name))
}

function writeServersFile(cache, kind, programs) {
  const path = join(cache, 'servers.json')
  let servers = {}
  try {
    servers = JSON.parse(readFileSync(path, 'utf8')).servers ?? {}
  } catch {
    // None yet, or of another version: it is written anew.
  }
  servers[kind] = programs
  writeFileSync(`${path}.new`, `${JSON.stringify({ servers, missing: {} }, null, 2)}\n`)
  renameSync(`${path}.new`, path)
}

/** Newest version first. */
function postgresFolders(root, prefix) {
  try {
    return readdirSync(root)
      .filter((version) => /^\d+$/.test(version))
      .sort((a, b) => Number(b) - Number(a))
      .map((version) => join(prefix, version, 'bin'))
  } catch {
    return []
  }
}

function hasPrograms(kind, folder) {
  return KINDS[kind].programs.every((program) => {
    try {
      accessSync(join(folder, program), constants.X_OK)
      return statSync(join(folder, program)).isFile()
    } catch {
      return false
    }
  })
}

function isOwnedByRoot(folder) {
  try {
    return statSync(folder).uid === 0
  } catch {
    return false
  }
}

/** For example `debian-12-x64`. */
function releaseName() {
  let text = ''
  try {
    text = readFileSync('/etc/os-release', 'utf8')
  } catch {
    // Not a Linux of today; whyNoPackages will say so.
  }
  const value = (name) => new RegExp(`^${name}="?([^"\\n]*)"?$`, 'm').exec(text)?.[1] ?? 'unknown'
  return `${value('ID')}-${value('VERSION_ID')}-${arch()}`.replace(/[^\w.-]/g, '_')
}
