/**
 * Figures that are compared with a bar. They are told and decide nothing: a slow or busy machine may
 * miss one, and that says nothing about locks.
 */
export interface Bar {
  /** What is compared with what: `p50, as a multiple of that before`. */
  readonly what: string
  readonly ratio: number
  /** The lowest and the highest of the parts that the ratio is made of: how noisy it is. */
  readonly spread: readonly [lowest: number, highest: number]
  /** At most. */
  readonly bar: number
  readonly answer: 'OK' | 'SHORT'
}

/** Consecutive figures of which each part has a median of its own. */
const PART = 20

/** @returns null where there is nothing to compare. */
export function medianBar(
  what: string,
  bar: number,
  figures: readonly number[],
  base: readonly number[],
): Bar | null {
  const of = quantile(base, 0.5)
  if (figures.length === 0 || !(of > 0)) return null
  const parts: number[] = []
  for (let from = 0; from < figures.length; from += PART) {
    parts.push(quantile(figures.slice(from, from + PART), 0.5) / of)
  }
  const ratio = hundredths(quantile(figures, 0.5) / of)
  const spread = [hundredths(Math.min(...parts)), hundredths(Math.max(...parts))] as const
  return { what, ratio, spread, bar, answer: ratio <= bar ? 'OK' : 'SHORT' }
}

/** The smallest figure that a share of all does not exceed; of none it is 0. */
export function quantile(figures: readonly number[], share: number): number {
  const sorted = [...figures].sort((a, b) => a - b)
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)] ?? 0
}

export function barText({ what, ratio, spread, bar, answer }: Bar): string {
  return `${answer}: ${what}: ${ratio} (${spread[0]} to ${spread[1]}), bar ${bar}`
}

export function hundredths(figure: number): number {
  return Math.round(figure * 100) / 100
}
