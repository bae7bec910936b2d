/** One worker, seen from the lab: its start, its pauses, its end, and its death. */
import { type ChildProcess, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Pausable } from './faults/index.ts'
import type { FromWorker, Sibling, ToWorker } from './messages.ts'
import { readProcess } from './servers/process-identity.ts'
import { createServerFolder, recordServer, removeServerFolder } from './servers/run-folder.ts'

const WORKER = fileURLToPath(new URL('./worker.js', import.meta.url))
const STDERR_LENGTH_MAX = 8_000
/** Closing connections takes milliseconds. */
const END_GRACE_MS = 3_000
const FREEZE_MS_MAX = 1_000

/** A worker ended although nobody had asked it to. */
class WorkerDiedError extends Error {
  static {
    this.prototype.name = 'WorkerDiedError'
  }
}

export class WorkerProcess implements Pausable {
  readonly role: string
  readonly pid: number
  readonly #child: ChildProcess
  readonly #folder: string
  readonly #exited: Promise<void>
  #isEnding = false
  #stderr = ''

  /**
   * @param onMessage Whatever it says.
   * @param onDeath It is gone, unasked; the error has the end of its stderr.
   */
  constructor(
    role: string,
    execArgv: readonly string[],
    onMessage: (message: FromWorker) => void,
    onDeath: (error: WorkerDiedError) => void,
  ) {
    this.role = role
    this.#folder = createServerFolder('worker')
    // Its stdout is nobody's: the lab's own must hold one JSON text and nothing else.
    const child = fork(WORKER, [], {
      execArgv: [...execArgv],
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#child = child
    this.pid = child.pid ?? 0
    // Written down like the servers: if this process is killed, the next run ends what stayed.
    if (this.pid !== 0) recordServer(this.#folder, { ...this.identity(), endSignal: 'SIGKILL' })
    child.on('message', (message) => onMessage(message as FromWorker))
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr = (this.#stderr + text).slice(-STDERR_LENGTH_MAX)
    })
    let startError: Error | null = null
    child.on('error', (error) => {
      startError = error
    })
    this.#exited = new Promise((resolve) => {
      // `close`, not `exit`: only then its stderr is complete.
      child.once('close', (code, signal) => {
        resolve()
        if (this.#isEnding) return
        const how = startError?.message ?? (signal === null ? `exit code ${code}` : signal)
        const stderr = this.#stderr.trim()
        const text = `worker ${role} (process ${this.pid}) ended unexpectedly: ${how}`
        onDeath(new WorkerDiedError(stderr === '' ? text : `${text}\n${stderr}`))
      })
    })
  }

  /** Number and start time, which together name this very process. */
  identity(): Sibling {
    return { pid: this.pid, startTicks: readProcess(this.pid)?.startTicks ?? '0' }
  }

  send(message: ToWorker): void {
    // With a callback a dead worker is no `error` event; its end is reported by onDeath anyway.
    if (this.#child.connected) this.#child.send(message, () => {})
  }

  sayGoOn(): void {
    this.send({ type: 'mark', mark: 'lab:go-on' })
  }

  async freeze(): Promise<void> {
    this.#child.kill('SIGSTOP')
    const giveUpAtMs = performance.now() + FREEZE_MS_MAX
    while (!isStopped(this.pid)) {
      if (performance.now() > giveUpAtMs) throw new Error(`process ${this.pid} does not stop`)
      await sleep(1)
    }
  }

  thaw(): void {
    this.#child.kill('SIGCONT')
  }

  /** Lets it close its connections, and ends it if that takes too long. Calling twice is safe. */
  async end(): Promise<void> {
    this.#isEnding = true
    this.send({ type: 'end' })
    const timer = new AbortController()
    // It rejects when it is aborted, which is when nobody waits for it any more.
    const late = sleep(END_GRACE_MS, undefined, { signal: timer.signal }).catch(() => {})
    await Promise.race([this.#exited, late])
    timer.abort()
    await this.kill()
  }

  /** SIGKILL, which alone ends a process that stands still by SIGSTOP. */
  async kill(): Promise<void> {
    this.#isEnding = true
    this.#child.kill('SIGKILL')
    await this.#exited
    removeServerFolder(this.#folder)
  }
}

/** By the kernel's word (proc(5), the field after the name); without /proc the signal is trusted. */
function isStopped(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.charAt(stat.lastIndexOf(')') + 2) === 'T'
  } catch {
    return true
  }
}
