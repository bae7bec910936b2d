import { expect, it } from 'vitest'
import type { TextFile } from '../tidy/repository.ts'
import { pages, proseLines } from './pages.ts'

const WIDTH_MAX = 120

/** One sentence for each line that is not as the pages are written. */
function complaints(page: TextFile): string[] {
  return proseLines(page).flatMap((line, index) => {
    const at = `${page.path}:${index + 1}`
    const found: string[] = []
    // A row of a table cannot be broken, nor can a link.
    const isTable = line.startsWith('|')
    if (!isTable && [...line].length > WIDTH_MAX) found.push(`${at}: is wider than ${WIDTH_MAX}`)
    const words = line.replace(/`[^`]*`|<!--.*-->|!\[/g, '')
    if (words.includes('!')) found.push(`${at}: has an exclamation mark`)
    if (/\p{Emoji_Presentation}|\uFE0F/u.test(words)) found.push(`${at}: has an emoji`)
    return found
  })
}

// The accident: pages by many hands in many voices, and lines that no diff can show.
it('the pages are written in one form', () => {
  expect(pages().flatMap(complaints)).toEqual([])
})

it('a line that is not in that form is found', () => {
  const text = `# Title\n\n${'word '.repeat(30)}\nFast!\nGood ✅\n\n\`a !== b\`\n`
  expect(complaints({ path: 'page.md', text })).toEqual([
    'page.md:3: is wider than 120',
    'page.md:4: has an exclamation mark',
    'page.md:5: has an emoji',
  ])
})
