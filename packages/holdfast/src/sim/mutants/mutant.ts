import type { ScenarioName, WorldName } from '../scenarios.ts'

export interface Patch {
  readonly name: string
  /** Below `src`. */
  readonly file: string
  readonly text: string
  readonly replacement: string
}

/** Where and when a bug shows. */
export interface Shown {
  readonly scenario: ScenarioName
  readonly world: WorldName
  /**
   * The first seed that showed it when it was last looked for, which is tried first. It moves with
   * every change of the sources; then others are tried.
   */
  readonly seed: number
}

export interface Mutant extends Shown {
  readonly name: string
  readonly patches: readonly Patch[]
}

/** A bug that something else than the simulation finds, and what does. */
export interface Elsewhere {
  readonly name: string
  readonly caught: 'differential' | 'conformance' | 'model'
  /** Where it is put in and seen to fall, in the repository. */
  readonly where: string
}

type Change = readonly [file: string, text: string, replacement: string]

export function mutant(name: string, shown: Shown, ...changes: readonly Change[]): Mutant {
  const patches = changes.map(([file, text, replacement]) => ({ name, file, text, replacement }))
  return { name, ...shown, patches }
}
