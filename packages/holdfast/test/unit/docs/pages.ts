/** The pages of the repository, and what the tests ask about them. */
import { codeBlocks } from '../../../../../scripts/lib/snippets.mjs'
import { readRepository, type TextFile } from '../tidy/repository.ts'

/** Everything that people read as a page. */
export function pages(): TextFile[] {
  return readRepository().filter(({ path }) => path.endsWith('.md'))
}

export function pageOf(path: string): TextFile {
  const page = pages().find((candidate) => candidate.path === path)
  if (page === undefined) throw new Error(`there is no page ${path}`)
  return page
}

/** The lines with code blocks emptied, so that numbers still count from the top. */
export function proseLines({ text }: TextFile): string[] {
  const lines = text.split('\n')
  for (const { line, text: code } of codeBlocks(text)) {
    lines.fill('', line - 1, line + 1 + code.split('\n').length)
  }
  return lines
}

/** Targets of `[text](target)`, with the number of their line, counted from 1. */
export function linksOf(page: TextFile): { line: number; target: string }[] {
  return proseLines(page).flatMap((line, index) => {
    // A backquoted piece is text that looks like a link at most.
    const plain = line.replace(/`[^`]*`/g, '')
    return [...plain.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = '']) => ({
      line: index + 1,
      target,
    }))
  })
}

/** As GitHub makes them: lower case, punctuation dropped, spaces to hyphens, repeats numbered. */
export function anchorsOf(page: TextFile): Set<string> {
  const seen = new Map<string, number>()
  const anchors = new Set<string>()
  for (const line of proseLines(page)) {
    const heading = /^#{1,6} (.+)$/.exec(line)?.[1]
    if (heading === undefined) continue
    const plain = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1')
    const slug = plain
      .toLowerCase()
      .replace(/[^\p{L}\p{N} _-]/gu, '')
      .replaceAll(' ', '-')
    const count = seen.get(slug) ?? 0
    seen.set(slug, count + 1)
    anchors.add(count === 0 ? slug : `${slug}-${count}`)
  }
  return anchors
}

/** Rows of the first table below a heading, cells without the backquotes around them. */
export function tableUnder(page: TextFile, heading: string): string[][] {
  const lines = page.text.split('\n')
  const start = lines.indexOf(heading)
  if (start < 0) throw new Error(`${page.path} has no heading "${heading}"`)
  const first = lines.findIndex((line, index) => index > start && line.startsWith('|'))
  const next = lines.findIndex((line, index) => index > start && line.startsWith('#'))
  if (first < 0 || (next >= 0 && next < first)) {
    throw new Error(`${page.path}: there is no table under "${heading}"`)
  }
  const end = lines.findIndex((line, index) => index > first && !line.startsWith('|'))
  const rows = lines.slice(first + 2, end < 0 ? undefined : end)
  return rows.map((row) => row.slice(1, -1).split('|').map(cellText))
}

function cellText(cell: string): string {
  return cell.trim().replace(/^`([^`]*)`$/, '$1')
}
