/**
 * What the set-up says, and the quiet way to run a program in it.
 *
 * Everything goes to stderr: stdout belongs to what is run in the end, and with `--json` it must be
 * one JSON document and nothing else.
 */
import { exitIfSignalled, spawnChild } from './children.mjs'
import { SetupError } from './setup-error.mjs'

export { SetupError } from './setup-error.mjs'

export function say(line) {
  process.stderr.write(`holdfast: ${line}\n`)
}

const FAILURE_LINES = 30
const FIRST_LINES = 5

/**
 * The last 30 lines of a text, after its first 5 if it is longer: npm says what is wrong first and
 * then prints a page of usage.
 */
export function endOf(text) {
  const lines = text.trimEnd().split('\n')
  if (lines.length <= FIRST_LINES + FAILURE_LINES) return lines.join('\n')
  return [...lines.slice(0, FIRST_LINES), '[...]', ...lines.slice(-FAILURE_LINES)].join('\n')
}

/**
 * Runs a program without showing its output, and gives its stdout.
 *
 * @throws {SetupError} with the command and the end of its output when it fails.
 */
export async function runQuietly(command, args, options = {}) {
  const { code, signal, output, stdout } = await collect(command, args, options)
  exitIfSignalled()
  if (code === 0) return stdout
  const how = signal === null ? `exit code ${code}` : `signal ${signal}`
  throw new SetupError(
    `failed (${how}): ${[command, ...args].join(' ')}\n${endOf(output) || '(no output)'}`,
  )
}

function collect(command, args, { cwd, env }) {
  return new Promise((resolve) => {
    const child = spawnChild(command, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let output = ''
    let stdout = ''
    child.stdout.setEncoding('utf8').on('data', (text) => {
      output += text
      stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', (text) => {
      output += text
    })
    child.once('error', (error) => {
      resolve({ code: error.code ?? 'unknown', signal: null, output: String(error), stdout })
    })
    child.once('close', (code, signal) => resolve({ code, signal, output, stdout }))
  })
}
