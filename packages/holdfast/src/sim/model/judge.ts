/** Asks the exhaustive model about each variant, and tells what came of it. */
import { explore } from './explore.ts'
import { LARGE_VARIANTS, VARIANTS, type Variant } from './variants.ts'

export interface ModelVerdict {
  readonly name: string
  /** Whether it is the protocol, or a bug. */
  readonly expected: Variant['expected']
  /** `model`: a violation was found; false: none. */
  readonly caught: 'model' | false
  /** That were searched: all there are, or up to the violation. */
  readonly states: number
  /** False: the search was cut short, and nothing is proved. */
  readonly complete: boolean
  /** A shortest way to the violation, one line a step; empty: there is none. */
  readonly trace: readonly string[]
}

export function judgeVariant({ name, expected, model }: Variant, statesMax?: number): ModelVerdict {
  const { states, complete, trace } = explore(model(), statesMax)
  return { name, expected, caught: trace.length > 0 ? 'model' : false, states, complete, trace }
}

/** @param large The large scopes instead: minutes, and up to half a gigabyte. */
export async function judgeModel(large = false): Promise<ModelVerdict[]> {
  return (large ? LARGE_VARIANTS : VARIANTS).map((variant) => judgeVariant(variant))
}

/** The protocol holds in its whole scope, or the bug is found. */
export function isAsExpected({ expected, caught, complete }: ModelVerdict): boolean {
  return complete && caught === (expected === 'broken' ? 'model' : false)
}

/** The line, and below it the way to a violation. */
export function modelText(verdict: ModelVerdict): string {
  return [modelLine(verdict), ...verdict.trace.map((line) => `    ${line}`)].join('\n')
}

export function modelLine(verdict: ModelVerdict): string {
  const { name, caught, states, complete, trace } = verdict
  const steps = `shortest counterexample ${trace.length - 2} steps`
  const found = caught === false ? 'holds' : `broken, ${steps}`
  const result = complete ? found : 'was cut short, and proves nothing'
  const alarm = isAsExpected(verdict) ? '' : '  UNEXPECTED'
  return `${name.padEnd(22)} ${String(states).padStart(9)} states  ${result}${alarm}`
}
