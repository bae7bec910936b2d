import type { Rule, TextFile } from '../repository.ts'

/** Bad input for one rule, and exactly what the rule must say of it. */
export interface Specimen {
  readonly rule: Rule
  /** The same rule with exceptions of the specimen's own. */
  readonly run?: Rule
  /** What is wrong with it, or why nothing is. */
  readonly title: string
  /** Path to text. */
  readonly files: Readonly<Record<string, string>>
  /** Empty: the rule must not complain, although it might seem to have reason to. */
  readonly complaints: readonly string[]
}

export function filesOf(specimen: Specimen): TextFile[] {
  return Object.entries(specimen.files).map(([path, text]) => ({ path, text }))
}

/** A text of so many lines that each look like `line`. */
export function linesOf(count: number, line: string): string {
  return `${line}\n`.repeat(count)
}
