/**
 * A private redis-server: 127.0.0.1 only, nothing kept on disk unless asked for.
 *
 * It is ready when it answered PING itself. "Itself" matters: somebody else's Redis may have taken
 * the port in between, so the answer must come from the process that was started.
 */
import { rmSync } from 'node:fs'
import { createConnection } from 'node:net'
import { join } from 'node:path'
import { findPrograms, type ServerPrograms } from './find-programs.ts'
import { findFreePort } from './ports.ts'
import { PrivateServer } from './private-server.ts'
import { type Server, ServerProcess, ServerStartError } from './server-process.ts'

export interface RedisServer extends Server {
  /**
   * Ends it, if it still runs, and starts it again on the same port with the same arguments.
   *
   * @param options.keepData True: a running server saves first, and what lies on disk is loaded.
   * False, the default: it comes back empty, as a server without persistence does.
   */
  restart(options?: { keepData?: boolean }): Promise<void>
}

export interface RedisOptions {
  /** Further arguments of redis-server; they come last, so they win over the defaults. */
  readonly args?: readonly string[]
  /** A fixed port; without it a free one is found. */
  readonly port?: number
  /** Further variables of its environment. */
  readonly env?: Readonly<Record<string, string>>
}

const STOP_GRACE_MS = 5_000
const CALL_MS_MAX = 1_000
/** SAVE of a test's data takes milliseconds; a busy disk may take seconds. */
const SAVE_MS_MAX = 30_000
/** Each try means that somebody took a port within milliseconds. */
const PORT_TRIES = 10

/** Starts a redis-server of its own and resolves when it answers. `findPort` is for tests. */
export async function startRedisServer(
  options: RedisOptions = {},
  findPort: () => Promise<number> = findFreePort,
): Promise<RedisServer> {
  const programs = findPrograms('redis')
  for (let tryNumber = 1; ; tryNumber++) {
    const port = options.port ?? (await findPort())
    const server = new PrivateRedis(programs, port, options)
    try {
      await server.start()
      return server
    } catch (error) {
      await server.stop()
      const isPortTaken = error instanceof ServerStartError && error.isPortTaken
      if (!isPortTaken || options.port !== undefined || tryNumber === PORT_TRIES) throw error
    }
  }
}

class PrivateRedis extends PrivateServer implements RedisServer {
  readonly name: string
  readonly port: number
  readonly #programs: ServerPrograms
  readonly #options: RedisOptions

  constructor(programs: ServerPrograms, port: number, options: RedisOptions) {
    super('redis', 'SIGTERM', STOP_GRACE_MS)
    this.#programs = programs
    this.port = port
    this.name = `redis-server ${port}`
    this.#options = options
  }

  async start(): Promise<void> {
    const { port, folder } = this
    const defaults = ['--port', `${port}`, '--bind', '127.0.0.1', '--protected-mode', 'no']
    defaults.push('--save', '', '--appendonly', 'no', '--daemonize', 'no', '--dir', folder)
    const started = new ServerProcess({
      name: this.name,
      programs: this.#programs,
      program: 'redis-server',
      args: [...defaults, ...(this.#options.args ?? [])],
      env: this.#options.env ?? {},
      folder,
      endSignal: 'SIGKILL',
    })
    this.process = started
    await started.waitUntilReady(() => answersItself(port, started.pid))
  }

  async restart(options: { keepData?: boolean } = {}): Promise<void> {
    const keepData = options.keepData ?? false
    if (keepData && this.process?.isRunning === true) await save(this.port)
    // By SIGKILL: everything that shall be kept is on disk, and an orderly end might save more.
    await this.process?.kill()
    if (!keepData) {
      rmSync(join(this.folder, 'dump.rdb'), { force: true })
      rmSync(join(this.folder, 'appendonlydir'), { recursive: true, force: true })
    }
    await this.start()
  }
}

/** A server with a password answers NOAUTH to everything, which is an answer as well. */
export async function answersItself(port: number, pid: number): Promise<boolean> {
  const reply = await call(port, 'PING\r\nINFO server\r\n', CALL_MS_MAX, (text) => {
    return text.includes('process_id:') || text.includes('-NOAUTH') || text.includes('-LOADING')
  })
  if (reply.startsWith('-NOAUTH')) return true
  return reply.startsWith('+PONG') && reply.includes(`process_id:${pid}\r\n`)
}

async function save(port: number): Promise<void> {
  const reply = await call(port, 'SAVE\r\n', SAVE_MS_MAX, (text) => text.endsWith('\r\n'))
  if (!reply.startsWith('+OK')) throw new Error(`SAVE was answered: ${reply.trim()}`)
}

/** Sends inline commands (https://redis.io/docs/latest/develop/reference/protocol-spec, "Inline commands"). */
export function call(
  port: number,
  commands: string,
  waitMs: number,
  isComplete: (text: string) => boolean,
): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = ''
    const socket = createConnection({ host: '127.0.0.1', port })
    const timer = setTimeout(() => finish(new Error(`no answer within ${waitMs} ms`)), waitMs)
    const finish = (error: Error | null): void => {
      clearTimeout(timer)
      socket.destroy()
      if (error === null) resolve(text)
      else reject(error)
    }
    socket.setEncoding('utf8')
    socket.once('connect', () => socket.write(commands))
    socket.on('data', (chunk: string) => {
      text += chunk
      if (isComplete(text)) finish(null)
    })
    socket.on('error', finish)
    socket.on('close', () => finish(new Error('closed before the answer was complete')))
  })
}
