/** What a run ran on, for whoever compares its figures with their own. */
import { execFile } from 'node:child_process'
import { availableParallelism, cpus, release, totalmem, type } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { MachineInfo } from './report/json.ts'
import { findPrograms, type ServerKind } from './servers/index.ts'
import { serverEnv } from './servers/server-process.ts'

const VERSION_MS_MAX = 10_000

/** `Redis server v=7.0.15 sha=…`, `postgres (PostgreSQL) 15.10 (Debian 15.10-0+deb12u1)`. */
const VERSIONS: Readonly<Record<ServerKind, { readonly program: string; readonly text: RegExp }>> =
  {
    redis: { program: 'redis-server', text: /v=([0-9.]+)/ },
    postgres: { program: 'postgres', text: /\(PostgreSQL\) ([0-9.]+)/ },
    etcd: { program: 'etcd', text: /etcd Version: ([0-9.]+)/ },
  }

export function thisMachine(): MachineInfo {
  return {
    cpu: cpus()[0]?.model.trim() || 'unknown CPU',
    cores: availableParallelism(),
    memoryGiB: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()}`,
  }
}

/** By the programs' own word; `unknown` where one does not tell. */
export async function serverVersions(
  kinds: Iterable<ServerKind>,
): Promise<Readonly<Record<string, string>>> {
  const versions: Record<string, string> = {}
  for (const kind of kinds) versions[kind] = await versionOf(kind)
  return versions
}

async function versionOf(kind: ServerKind): Promise<string> {
  const programs = findPrograms(kind)
  const { program, text } = VERSIONS[kind]
  try {
    const path = join(programs.folder, program)
    const options = { env: serverEnv(programs), timeout: VERSION_MS_MAX }
    const { stdout } = await promisify(execFile)(path, ['--version'], options)
    return text.exec(stdout)?.[1] ?? 'unknown'
  } catch {
    return 'unknown'
  }
}
