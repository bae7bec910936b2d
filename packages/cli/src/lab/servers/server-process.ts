/**
 * One server process that this process started: its end, its pauses, its log.
 *
 * It runs in a session of its own, so that Ctrl-C on the terminal reaches the runner only, which
 * then ends it in order. It does not keep the runner alive: a runner that forgets `stop()` exits,
 * and its servers end with it (see run-folder.ts).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ServerPrograms } from './find-programs.ts'
import { descendantsOf, isSameProcess, readProcess, signalProcess } from './process-identity.ts'
import { forgetServer, recordServer } from './run-folder.ts'

/** What every server of the lab can do. */
export interface Server {
  /** Kind and port, for messages: `redis-server 16379`. */
  readonly name: string
  readonly pid: number
  readonly port: number
  /** Holds data and log; gone after `stop()`. */
  readonly folder: string
  /** Ends it in order, at the latest by SIGKILL, and removes its folder. Calling twice is safe. */
  stop(): Promise<void>
  /** SIGKILL to it and its children; resolves when they have ended. The folder stays until `stop()`. */
  kill(): Promise<void>
  /** SIGSTOP to it and its children: connections stay open and nobody answers. */
  freeze(): void
  /** SIGCONT. */
  thaw(): void
}

/** The uid and gid under which a server runs, when not under ours. */
export interface ServerUser {
  readonly uid: number
  readonly gid: number
}

export interface Launch {
  readonly name: string
  readonly programs: ServerPrograms
  readonly program: string
  readonly args: readonly string[]
  readonly folder: string
  /** What makes it end at once with its children, when there is no time left. */
  readonly endSignal: NodeJS.Signals
  readonly user?: ServerUser | undefined
  /** Further variables of its environment. */
  readonly env?: Readonly<Record<string, string>>
}

const LOG_LINES_IN_ERROR = 20
/** A start takes well below a second; a machine with every core taken may need far longer. */
const READY_MS_MAX = 60_000
const READY_POLL_MS = 20

/** A server ended, or did not answer, instead of starting. */
export class ServerStartError extends Error {
  static {
    this.prototype.name = 'ServerStartError'
  }

  readonly isPortTaken: boolean

  constructor(name: string, what: string, log: string) {
    super(`${name} ${what}; the end of its log:\n${lastLines(log)}`)
    // Redis: "bind: Address already in use"; PostgreSQL: "could not bind IPv4 address ...:
    // Address already in use". Both log in English because they run with LC_ALL=C. etcd: "bind:
    // address already in use".
    this.isPortTaken = /address already in use/i.test(log)
  }
}

export class ServerProcess {
  readonly pid: number
  readonly #launch: Launch
  readonly #child: ChildProcess
  readonly #startTicks: string
  readonly #ended: Promise<void>

  /** Spawns it and writes it down in the same turn; it is not ready yet. */
  constructor(launch: Launch) {
    const log = openSync(join(launch.folder, 'log'), 'a')
    const child = spawn(join(launch.programs.folder, launch.program), launch.args, {
      cwd: launch.folder,
      detached: true,
      env: { ...serverEnv(launch.programs), ...launch.env },
      stdio: ['ignore', log, log],
      ...launch.user,
    })
    closeSync(log)
    this.#launch = launch
    this.#child = child
    this.#ended = new Promise((resolve) => {
      child.once('exit', () => resolve())
      // A program that cannot be run at all has no exit; waitUntilReady reports it by its pid.
      child.once('error', () => resolve())
    })
    this.pid = child.pid ?? 0
    this.#startTicks = readProcess(this.pid)?.startTicks ?? '0'
    if (this.pid === 0) return
    const { folder, endSignal } = launch
    recordServer(folder, { pid: this.pid, startTicks: this.#startTicks, endSignal })
    child.unref()
  }

  get isRunning(): boolean {
    return this.pid !== 0 && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /**
   * Asks `isReady` until it says yes. What it throws counts as no: servers refuse connections
   * until they are ready.
   *
   * @throws {ServerStartError} when the process ends first or a minute passes; it has then ended.
   */
  async waitUntilReady(isReady: () => Promise<boolean>): Promise<void> {
    const giveUpAtMs = performance.now() + READY_MS_MAX
    while (performance.now() < giveUpAtMs) {
      if (!this.isRunning) throw await this.#startError('ended instead of starting')
      if (await isReady().catch(() => false)) return
      await Promise.race([sleep(READY_POLL_MS), this.#ended])
    }
    throw await this.#startError(`did not answer within ${READY_MS_MAX} ms`)
  }

  /** Sends a signal, and SIGKILL if it has not ended `graceMs` later. */
  async end(signal: NodeJS.Signals, graceMs: number): Promise<void> {
    if (!this.isRunning) return
    this.#signal(signal)
    this.thaw() // A frozen process takes the signal only when it is woken.
    const timer = new AbortController()
    const hasEnded = await Promise.race([
      this.#ended.then(() => true),
      sleep(graceMs, false, { signal: timer.signal }).catch(() => false),
    ])
    timer.abort()
    if (hasEnded) forgetServer(this.#launch.folder)
    else await this.kill()
  }

  async kill(): Promise<void> {
    // Parents first: they would otherwise start new children in place of the killed ones.
    const children = descendantsOf(this.pid)
    if (this.isRunning) this.#signal('SIGKILL')
    for (const child of children) signalProcess(child.pid, child.startTicks, 'SIGKILL')
    this.#child.ref()
    await this.#ended
    while (children.some(({ pid, startTicks }) => isSameProcess(pid, startTicks))) await sleep(5)
    forgetServer(this.#launch.folder)
  }

  freeze(): void {
    this.#signal('SIGSTOP')
    for (const child of descendantsOf(this.pid)) {
      signalProcess(child.pid, child.startTicks, 'SIGSTOP')
    }
  }

  thaw(): void {
    for (const child of descendantsOf(this.pid)) {
      signalProcess(child.pid, child.startTicks, 'SIGCONT')
    }
    this.#signal('SIGCONT')
  }

  /** Through the child object, which knows when the number is no longer ours. */
  #signal(signal: NodeJS.Signals): void {
    if (this.pid !== 0) this.#child.kill(signal)
  }

  async #startError(what: string): Promise<ServerStartError> {
    await this.kill()
    return new ServerStartError(this.#launch.name, what, readLog(this.#launch.folder))
  }
}

/** What a server of ours is told about the world: nothing that would change how it behaves. */
export function serverEnv(programs: ServerPrograms): NodeJS.ProcessEnv {
  const { PATH, TMPDIR, HOME } = process.env
  const env: NodeJS.ProcessEnv = { LC_ALL: 'C', TZ: 'UTC', PATH, TMPDIR, HOME }
  if (programs.libraryPath !== '') env['LD_LIBRARY_PATH'] = programs.libraryPath
  return env
}

/** The last lines of a text, for an error message. */
function lastLines(text: string): string {
  return text.trimEnd().split('\n').slice(-LOG_LINES_IN_ERROR).join('\n')
}

function readLog(folder: string): string {
  try {
    return readFileSync(join(folder, 'log'), 'utf8')
  } catch {
    return '(no log)'
  }
}
