import { execFile, spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const ROOT = fileURLToPath(new URL('../../../..', import.meta.url))

/** A temporary folder that other users may enter, as `/tmp` is. */
export function createOpenFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-test-'))
  chmodSync(folder, 0o711)
  return folder
}

/** True when no process of that number runs; a zombie has ended. */
export function isGone(pid: number): boolean {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
    return stat.slice(stat.lastIndexOf(')') + 2).startsWith('Z')
  } catch {
    return true
  }
}

/** Polls for at most `waitMs`; says whether it became true. */
export async function becomesTrue(check: () => boolean, waitMs = 20_000): Promise<boolean> {
  const giveUpAtMs = performance.now() + waitMs
  while (!check()) {
    if (performance.now() > giveUpAtMs) return false
    await sleep(10)
  }
  return true
}

/** One inline command to a Redis; null when no answer came within `waitMs`. */
export function askRedis(port: number, command: string, waitMs = 10_000): Promise<string | null> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ host: '127.0.0.1', port })
    const timer = setTimeout(() => finish(null), waitMs)
    const finish = (answer: string | null): void => {
      clearTimeout(timer)
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => socket.write(`${command}\r\n`))
    socket.once('data', (chunk: Buffer) => finish(chunk.toString().trim()))
    socket.once('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
  })
}

/**
 * The sources of the starters as JavaScript, for processes that are not vitest: Node 20 runs no
 * TypeScript. Compiled aside and not taken from `dist`, which may be older than the sources.
 */
export async function compileStarters(): Promise<{ url: string; remove: () => void }> {
  const folder = createOpenFolder()
  const source = join(ROOT, 'packages/cli/src/lab/servers')
  writeFileSync(
    join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: join(ROOT, 'tsconfig.base.json'),
      compilerOptions: {
        noCheck: true,
        declaration: false,
        isolatedDeclarations: false,
        rootDir: source,
        outDir: join(folder, 'out'),
        types: [],
      },
      include: [join(source, '*.ts')],
    }),
  )
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
  const tsc = join(ROOT, 'node_modules/typescript/bin/tsc')
  await promisify(execFile)(process.execPath, [tsc, '-p', folder])
  return {
    url: join(folder, 'out/index.js'),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}

/** A process of its own that starts servers. */
export interface Runner {
  readonly pid: number
  /** What it printed first: the process numbers of its servers, and their folders. */
  readonly servers: readonly { pid: number; folder: string }[]
  readonly stderr: () => string
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null }>
  signal(signal: NodeJS.Signals): void
}

/**
 * Starts `node` on a program that starts a Redis and a PostgreSQL, prints them and then does
 * `after`. Its temporary folder is `tmp`.
 */
export async function startRunner(starters: string, tmp: string, after: string): Promise<Runner> {
  const program = `
    import { startPostgres, startRedis } from ${JSON.stringify(starters)}
    const servers = [await startRedis(), await startPostgres({ settings: { fsync: 'off' } })]
    console.log(JSON.stringify(servers.map(({ pid, folder }) => ({ pid, folder }))))
    ${after}
  `
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    env: { ...process.env, TMPDIR: tmp },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  const ended = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  const line = await new Promise<string>((resolve, reject) => {
    let stdout = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
      if (stdout.includes('\n')) resolve(stdout)
    })
    child.once('exit', () => reject(new Error(`the runner ended early:\n${stderr}`)))
  })
  return {
    pid: child.pid ?? 0,
    servers: JSON.parse(line) as { pid: number; folder: string }[],
    stderr: () => stderr,
    ended,
    signal: (signal) => child.kill(signal),
  }
}
