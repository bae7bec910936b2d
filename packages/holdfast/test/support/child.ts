/** Programs of a test as processes of their own, with the library compiled aside for them. */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { emitLibrary } from '../../../../scripts/lib/emit.mjs'

export interface Ended {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
  /** From the start of the process. */
  readonly afterMs: number
}

export interface Child {
  readonly pid: number
  readonly ended: Promise<Ended>
  /** What it sent by `process.send`, in order. */
  readonly messages: unknown[]
  /** Polls what it sent; rejects when it ends or time is over before. */
  sent(message: string, withinMs?: number): Promise<void>
  send(message: string): void
  signal(signal: NodeJS.Signals): void
}

export interface Children {
  /**
   * Runs the text of a module beside `dist/`, so that it imports './dist/index.js'. A child that
   * still runs at the end of the test is ended. `env` is added to the environment of the test.
   */
  run(text: string, nodeOptions?: readonly string[], env?: Readonly<Record<string, string>>): Child
  remove(): Promise<void>
}

const CHILD_MS_MAX = 60_000

/** @param packages Peers that the library itself imports, by name. */
export async function openChildren(packages: readonly string[] = []): Promise<Children> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-child-'))
  await emitLibrary(join(folder, 'dist')).catch((error: unknown) => {
    rmSync(folder, { recursive: true, force: true })
    throw error
  })
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  for (const name of packages) linkPackage(folder, name)
  const running = new Set<ChildProcess>()
  let count = 0
  return {
    run(text, nodeOptions = [], env = {}) {
      count += 1
      const path = join(folder, `child-${count}.js`)
      writeFileSync(path, text)
      const child = spawn(process.execPath, [...nodeOptions, path], {
        stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
        env: { ...process.env, ...env },
      })
      running.add(child)
      child.once('exit', () => running.delete(child))
      return watched(child)
    },
    async remove() {
      const gone = [...running].map(
        (child) => new Promise((resolve) => child.once('exit', resolve)),
      )
      for (const child of running) child.kill('SIGKILL')
      await Promise.all(gone)
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

function linkPackage(folder: string, name: string): void {
  const own = createRequire(import.meta.url).resolve(`${name}/package.json`)
  const link = join(folder, 'node_modules', name)
  mkdirSync(dirname(link), { recursive: true })
  symlinkSync(dirname(own), link)
}

/** For `import` in a child's text. */
export function moduleUrl(name: string): string {
  return JSON.stringify(pathToFileURL(createRequire(import.meta.url).resolve(name)).href)
}

function watched(child: ChildProcess): Child {
  const startedAtMs = performance.now()
  const messages: unknown[] = []
  const texts = { stdout: '', stderr: '' }
  child.on('message', (message) => messages.push(message))
  for (const name of ['stdout', 'stderr'] as const) {
    child[name]?.setEncoding('utf8').on('data', (text: string) => {
      texts[name] += text
    })
  }
  let isOver = false
  const ended = new Promise<Ended>((resolve) => {
    const timer = setTimeout(() => child.kill('SIGKILL'), CHILD_MS_MAX)
    // `close` and not `exit`: its output is complete then.
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      isOver = true
      resolve({ code, signal, ...texts, afterMs: performance.now() - startedAtMs })
    })
  })
  return {
    pid: child.pid ?? 0,
    ended,
    messages,
    async sent(message, withinMs = 20_000) {
      const endMs = performance.now() + withinMs
      while (!messages.includes(message)) {
        if (isOver || performance.now() > endMs) {
          throw new Error(`the child did not send "${message}": ${texts.stderr}`)
        }
        await sleep(5)
      }
    },
    send: (message) => void child.send(message),
    signal: (signal) => void child.kill(signal),
  }
}
