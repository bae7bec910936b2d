/**
 * A private PostgreSQL: a new cluster in a temporary folder, 127.0.0.1 only, no Unix socket, no
 * password.
 *
 * Each start runs initdb, about a second. A prepared cluster could be copied instead, but all
 * copies would have the same system identifier, and the fence's `source` tells clusters apart by it.
 *
 * PostgreSQL refuses to run as root. Root therefore starts it as the user `postgres` if there is
 * one, else as `nobody`; its data lies in a folder of that user.
 *
 * It is ready when it answered a query that names our own data folder: somebody else's PostgreSQL
 * may have taken the port in between.
 */
import { execFile } from 'node:child_process'
import { chownSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'
import { findPrograms, type ServerPrograms } from './find-programs.ts'
import { findFreePort } from './ports.ts'
import { PrivateServer } from './private-server.ts'
import {
  type Server,
  ServerProcess,
  ServerStartError,
  type ServerUser,
  serverEnv,
} from './server-process.ts'

export interface PostgresServer extends Server {
  /** For `new pg.Pool(server.connection)`. There is no password: everybody on 127.0.0.1 is trusted. */
  readonly connection: {
    readonly host: '127.0.0.1'
    readonly port: number
    readonly user: string
    readonly database: string
    readonly password?: string
  }
}

export interface PostgresOptions {
  /** Settings of postgresql.conf that win over the defaults, for example `{ fsync: 'off' }`. */
  readonly settings?: Readonly<Record<string, string>>
}

const SUPERUSER = 'postgres'
const INITDB_MS_MAX = 120_000
/** A fast shutdown writes a checkpoint: milliseconds, on a busy disk seconds. */
const STOP_GRACE_MS = 20_000
const CONNECT_MS_MAX = 5_000
/** Each try means that somebody took a port within a second. */
const PORT_TRIES = 10

/**
 * fsync stays on: what a crash leaves is part of what the lab shows. No parallel workers and no
 * JIT, which only cost processes and libraries here. Shared memory lies in the data folder, so that
 * a killed server leaves nothing in /dev/shm.
 */
const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '200',
  shared_buffers: '32MB',
  dynamic_shared_memory_type: 'mmap',
  max_parallel_workers: '0',
  jit: 'off',
  timezone: 'GMT',
  log_timezone: 'GMT',
}

/** Starts a PostgreSQL of its own and resolves when it answers a query. `findPort` is for tests. */
export async function startPostgresServer(
  options: PostgresOptions = {},
  findPort: () => Promise<number> = findFreePort,
): Promise<PostgresServer> {
  const programs = findPrograms('postgres')
  const server = new PrivatePostgres(programs, { ...SETTINGS, ...options.settings })
  try {
    await server.createCluster()
    for (let tryNumber = 1; ; tryNumber++) {
      try {
        await server.start(await findPort())
        return server
      } catch (error) {
        const isPortTaken = error instanceof ServerStartError && error.isPortTaken
        if (!isPortTaken || tryNumber === PORT_TRIES) throw error
      }
    }
  } catch (error) {
    await server.stop()
    throw error
  }
}

class PrivatePostgres extends PrivateServer implements PostgresServer {
  readonly #data: string
  readonly #programs: ServerPrograms
  readonly #settings: Readonly<Record<string, string>>
  readonly #user: ServerUser | undefined
  #port = 0

  constructor(programs: ServerPrograms, settings: Readonly<Record<string, string>>) {
    super('postgres', 'SIGINT', STOP_GRACE_MS) // "Fast shutdown": ends the sessions first.
    this.#programs = programs
    this.#settings = settings
    this.#user = process.getuid?.() === 0 ? unprivilegedUser() : undefined
    this.#data = join(this.folder, 'data')
  }

  get name(): string {
    return `PostgreSQL ${this.#port}`
  }

  get port(): number {
    return this.#port
  }

  get connection(): PostgresServer['connection'] {
    return { host: '127.0.0.1', port: this.#port, user: SUPERUSER, database: 'postgres' }
  }

  async createCluster(): Promise<void> {
    mkdirSync(this.#data, { mode: 0o700 })
    if (this.#user !== undefined) chownSync(this.#data, this.#user.uid, this.#user.gid)
    const args = ['-D', this.#data, '-U', SUPERUSER, '-A', 'trust', '-E', 'UTF8', '--locale=C']
    try {
      await promisify(execFile)(
        join(this.#programs.folder, 'initdb'),
        [...args, '--no-sync', '--no-instructions'],
        {
          cwd: this.folder,
          env: serverEnv(this.#programs),
          timeout: INITDB_MS_MAX,
          ...this.#user,
        },
      )
    } catch (error) {
      const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string }
      throw new ServerStartError('initdb', `failed (${String(error)})`, stdout + stderr)
    }
  }

  async start(port: number): Promise<void> {
    this.#port = port
    const settings = Object.entries({ ...this.#settings, port: String(port) })
    const started = new ServerProcess({
      name: this.name,
      programs: this.#programs,
      program: 'postgres',
      args: ['-D', this.#data, ...settings.flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      folder: this.folder,
      // Its "immediate shutdown": ends the children and frees the shared memory, which SIGKILL does not.
      endSignal: 'SIGQUIT',
      user: this.#user,
    })
    this.process = started
    await started.waitUntilReady(() => this.#answersItself())
  }

  async #answersItself(): Promise<boolean> {
    const client = new pg.Client({
      ...this.connection,
      connectionTimeoutMillis: CONNECT_MS_MAX,
      query_timeout: CONNECT_MS_MAX,
    })
    client.on('error', () => {}) // The query below rejects as well, and that is what is looked at.
    try {
      await client.connect()
      const { rows } = await client.query<{ data_directory: string }>('SHOW data_directory')
      return rows[0]?.data_directory === this.#data
    } finally {
      await client.end()
    }
  }
}

/** User `postgres`, else `nobody`, by the machine's own list; 65534 is what the kernel calls nobody. */
function unprivilegedUser(): ServerUser {
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'))
  for (const wanted of ['postgres', 'nobody']) {
    const [, , uid, gid] = users.find(([name]) => name === wanted) ?? []
    if (uid !== undefined && gid !== undefined) return { uid: Number(uid), gid: Number(gid) }
  }
  return { uid: 65_534, gid: 65_534 }
}
