/** Arithmetic of the figures. */

/** @param values At least one; sorted here, not in place. */
export function median(values: readonly number[]): number {
  return percentile(values, 0.5)
}

/**
 * The value below which `share` of all values lie, interpolated between neighbours.
 *
 * @param share 0 to 1.
 */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new Error('there is no percentile of nothing')
  const sorted = Float64Array.from(values).sort()
  const place = (sorted.length - 1) * share
  const low = sorted[Math.floor(place)] as number
  const high = sorted[Math.ceil(place)] as number
  return low + (high - low) * (place - Math.floor(place))
}

/** Not by spreading, which ends at about a hundred thousand values. */
export function largest(values: readonly number[]): number {
  return values.reduce((most, value) => Math.max(most, value), Number.NEGATIVE_INFINITY)
}

/**
 * Jain's index of fairness: 1 when all got the same, 1/n when one got everything.
 *
 * R. Jain, D. Chiu, W. Hawe: A Quantitative Measure of Fairness and Discrimination, DEC TR-301, 1984.
 */
export function jain(counts: readonly number[]): number {
  const sum = counts.reduce((total, count) => total + count, 0)
  const squares = counts.reduce((total, count) => total + count * count, 0)
  return squares === 0 ? 0 : (sum * sum) / (counts.length * squares)
}
