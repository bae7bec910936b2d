/**
 * Snippets of the pages are pieces of the programs in `examples/`, so that what people copy has run.
 *
 * A page has a marker right above the block, `<!-- examples/quick-start.ts#all -->`; the program has
 * the lines `// #region all` and `// #endregion`. Regions of one name are joined by an empty line.
 */

const MARKER = /^<!-- (examples\/[\w./-]+)#([\w-]+) -->$/

/**
 * The code blocks of a page, in order.
 *
 * @returns `{line, language, text, marker: {path, region} | null}`; `line` is the one of the fence,
 *   counted from 1, and `marker` what stands right above it.
 */
export function codeBlocks(page) {
  const lines = page.split('\n')
  const blocks = []
  for (let at = 0; at < lines.length; at++) {
    const fence = /^```(\w*)$/.exec(lines[at])
    if (fence === null) continue
    const end = lines.indexOf('```', at + 1)
    if (end < 0) throw new Error(`line ${at + 1}: this code block has no end`)
    const found = MARKER.exec(lines[at - 1] ?? '')
    blocks.push({
      line: at + 1,
      language: fence[1],
      text: lines.slice(at + 1, end).join('\n'),
      marker: found && { path: found[1] ?? '', region: found[2] ?? '' },
    })
    at = end
  }
  return blocks
}

/** The text of a region, without the indentation that all of its lines share. */
export function regionOf(program, region) {
  const parts = []
  let open = null
  for (const line of program.split('\n')) {
    const trimmed = line.trim()
    if (trimmed === `// #region ${region}`) open = []
    else if (trimmed === '// #endregion' && open !== null) {
      parts.push(dedented(open))
      open = null
    } else if (open !== null) open.push(line)
  }
  if (open !== null) throw new Error(`the region ${region} has no end`)
  if (parts.length === 0) throw new Error(`there is no region ${region}`)
  return parts.join('\n\n')
}

/** The page with the text of every marked block put in anew. `read` gives a program by its path. */
export function withSnippets(page, read) {
  const lines = page.split('\n')
  // From the end, so that the lines before it stay where they are.
  for (const { line, text, marker } of codeBlocks(page).reverse()) {
    if (marker === null) continue
    const fresh = regionOf(read(marker.path), marker.region).split('\n')
    lines.splice(line, text === '' && lines[line] === '```' ? 0 : text.split('\n').length, ...fresh)
  }
  return lines.join('\n')
}

function dedented(lines) {
  const indents = lines.filter((line) => line.trim() !== '').map((line) => line.search(/\S/))
  const shared = Math.min(...indents)
  return lines.map((line) => line.slice(shared)).join('\n')
}
