/** Rules about any text, code or not: what must not be left behind in it. */
import type { Rule, TextFile } from '../repository.ts'

/** Written so that this file does not complain about itself. */
const MARKERS = /\b(?:TO[D]O|FIX[M]E|X[X]X)\b/g

/** Of the machines that Holdfast is written on; a user's own paths come from the environment. */
const MACHINE_PATHS = /(?<![\w.:-])\/(?:work|root|home)(?=\/|\b)/g

export const markers: Rule = (files) =>
  files.flatMap((file) => findAll(file, MARKERS, (found) => `${found} is left over`))

export const machinePaths: Rule = (files) =>
  files.flatMap((file) =>
    findAll(file, MACHINE_PATHS, (found) => `${found} is a path of one machine`),
  )

function findAll(file: TextFile, pattern: RegExp, say: (found: string) => string): string[] {
  return [...file.text.matchAll(pattern)].map((match) => {
    const line = file.text.slice(0, match.index).split('\n').length
    return `${file.path}:${line}: ${say(match[0])}`
  })
}
