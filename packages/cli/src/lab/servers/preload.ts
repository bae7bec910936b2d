/** Libraries that are loaded before a program's own, made on the spot by the machine's C compiler. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'

const COMPILE_MS_MAX = 60_000

/**
 * In one line, why this machine cannot make one, or null where it can.
 *
 * @param what Begins the line: what would be done with it.
 */
export function whyNoPreload(what: string): string | null {
  if (process.platform !== 'linux') return `${what} on Linux only`
  try {
    execFileSync('cc', ['--version'], { stdio: 'ignore', timeout: COMPILE_MS_MAX })
    return null
  } catch {
    return 'there is no C compiler (cc) in PATH'
  }
}

/** @returns The path of the library, for `LD_PRELOAD`. */
export function makePreload(folder: string, name: string, text: string): string {
  const library = join(folder, `${name}.so`)
  const source = join(folder, `${name}.c`)
  writeFileSync(source, text)
  execFileSync('cc', ['-O1', '-fPIC', '-shared', '-o', library, source], {
    timeout: COMPILE_MS_MAX,
  })
  return library
}
