import type { Bytes } from '../bytes.ts'
import type { ScriptRun } from '../script-run.ts'

export type Part = Bytes | number | null
export type Reply = Part | readonly Part[]

/** What a script of ours does to a node, and answers. */
export type ScriptModel = (run: ScriptRun, keys: readonly Bytes[], args: readonly Bytes[]) => Reply
