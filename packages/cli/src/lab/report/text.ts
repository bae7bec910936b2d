/** What the reports for people share. */

/** Breaks a line at its spaces so that no part is wider; a single word may be. */
export function wrapped(line: string, widthMax: number, indent = ''): string[] {
  const [first = '', ...words] = line.split(' ')
  const lines: string[] = []
  let current = first
  for (const word of words) {
    const longer = `${current} ${word}`
    // Spaces at the begin are the line's own indent: no place to break it.
    if (current.trim() !== '' && [...longer].length > widthMax) {
      lines.push(current)
      current = indent + word
    } else current = longer
  }
  return [...lines, current]
}

export function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(1)} s`
}

/** For what a person waits for: `48 s`, `3 min 7 s`. */
export function minutes(ms: number): string {
  const all = Math.round(ms / 1_000)
  return all < 60 ? `${all} s` : `${Math.floor(all / 60)} min ${all % 60} s`
}

export function protectionText(arm: {
  readonly protected: boolean
  readonly notCovered?: boolean
}): string {
  if (arm.notCovered === true) return 'not covered'
  return arm.protected ? 'yes' : 'no'
}
