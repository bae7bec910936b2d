import { spawn } from 'node:child_process'
import { mkdtempSync, realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { onTestFinished, vi } from 'vitest'

export const SCRIPTS = fileURLToPath(new URL('..', import.meta.url))

export function createFolder() {
  return realpathSync(mkdtempSync(join(tmpdir(), 'holdfast-scripts-')))
}

/** What the set-up says in this process would look like the set-up of the test run itself. */
export function hideProgress() {
  const write = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  onTestFinished(() => write.mockRestore())
}

/** Starts `node` on a text that imports from scripts/lib by `lib('name.mjs')`. */
export function startNode(text, { env = process.env, args = [] } = {}) {
  const program = `const lib = (name) => import(${JSON.stringify(`${SCRIPTS}lib/`)} + name)\n${text}`
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program, '--', ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  return { child, ...watch(child) }
}

/** Collects what a child writes; `ended` resolves when its output is complete. */
export function watch(child) {
  const seen = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr']) {
    child[stream].setEncoding('utf8').on('data', (text) => {
      seen[stream] += text
    })
  }
  const ended = new Promise((resolve, reject) => {
    child.once('error', reject)
    child.once('close', (code, signal) => resolve({ code, signal, ...seen }))
  })
  /** Resolves when stdout holds that text. */
  const says = (text) =>
    new Promise((resolve, reject) => {
      const look = () => seen.stdout.includes(text) && resolve()
      child.stdout.on('data', look)
      child.once('close', () => reject(new Error(`ended before it said ${text}: ${seen.stderr}`)))
      look()
    })
  return { ended, says }
}
