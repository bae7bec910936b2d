/**
 * What the rules of tidy read: files as plain data, so that a rule can be run on the repository and
 * on a specimen alike.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface TextFile {
  /** From the root of the repository, with `/`. */
  readonly path: string
  readonly text: string
}

/**
 * Takes all files, looks at those that it is about, and says what is wrong, one sentence each, with
 * the path and, where there is one, the line. Empty: all is well.
 */
export type Rule = (files: readonly TextFile[]) => string[]

export const ROOT: string = fileURLToPath(new URL('../../../../../', import.meta.url))

/** What is under version control or about to be: tracked, and new without being ignored. */
export function readRepository(): TextFile[] {
  const args = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
  // Without this git refuses a clone that belongs to another user, as in many containers.
  const trust = ['-c', `safe.directory=${ROOT.replace(/\/$/, '')}`]
  const output = execFileSync('git', [...trust, ...args], { cwd: ROOT, encoding: 'utf8' })
  const paths = [...new Set(output.split('\0'))].filter((path) => path !== '').sort()
  return paths.flatMap((path) => readText(path) ?? [])
}

/** Null for what is deleted but still tracked, for folders (a nested clone) and for binary files. */
function readText(path: string): TextFile | null {
  const absolute = join(ROOT, path)
  if (!statSync(absolute, { throwIfNoEntry: false })?.isFile()) return null
  const text = readFileSync(absolute, 'utf8')
  return text.includes('\0') ? null : { path, text }
}

export function findFile(files: readonly TextFile[], path: string): TextFile | undefined {
  return files.find((file) => file.path === path)
}

/** The file parsed as JSON, or null when it is not there. */
export function findJson(
  files: readonly TextFile[],
  path: string,
): Readonly<Record<string, unknown>> | null {
  const file = findFile(files, path)
  return file ? (JSON.parse(file.text) as Record<string, unknown>) : null
}
