import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { codeBlocks, regionOf, withSnippets } from '../../../../../scripts/lib/snippets.mjs'
import { ROOT, type TextFile } from '../tidy/repository.ts'
import { pages } from './pages.ts'

const read = (path: string): string => readFileSync(join(ROOT, path), 'utf8')

/** One sentence for each piece of code that is not a piece of a program that runs. */
function strangers({ path, text }: TextFile): string[] {
  return codeBlocks(text).flatMap(({ line, language, text: code, marker }) => {
    if (language !== 'ts') return []
    const at = `${path}:${line}`
    if (marker === null) return [`${at}: this code comes from no example`]
    const { path: program, region } = marker
    if (regionOf(read(program), region) === code) return []
    return [`${at}: differs from ${program}#${region}; node scripts/snippets.mjs puts it in anew`]
  })
}

// The accident: code in a page that nobody compiles is wrong one release later, and is what people
// copy first.
it('every snippet of a page is a piece of an example', () => {
  const all = pages()
  const blocks = all.flatMap(({ text }) => codeBlocks(text).filter(({ marker }) => marker !== null))
  expect(blocks.length).toBeGreaterThan(10)
  expect(all.flatMap(strangers)).toEqual([])
})

it('a snippet that was changed by hand, and one without an example, are found', () => {
  const text =
    '```ts\nconst a = 1\n```\n\n<!-- examples/first-lock.ts#locks -->\n```ts\nconst b = 2\n```\n'
  expect(strangers({ path: 'page.md', text })).toEqual([
    'page.md:1: this code comes from no example',
    'page.md:6: differs from examples/first-lock.ts#locks; node scripts/snippets.mjs puts it in anew',
  ])
})

it('a region loses its indentation, and regions of one name are joined', () => {
  const program = [
    'import a',
    '// #region all',
    'one()',
    '// #endregion',
    'between()',
    '  // #region all',
    '  two({',
    '    deep,',
    '  })',
    '  // #endregion',
  ].join('\n')
  expect(regionOf(program, 'all')).toBe('one()\n\ntwo({\n  deep,\n})')
  expect(() => regionOf(program, 'other')).toThrow('there is no region other')
  expect(() => regionOf('// #region open\na', 'open')).toThrow('the region open has no end')
})

it('snippets are put in anew where there was none, or another', () => {
  const marker = '<!-- examples/a.ts#all -->'
  const page = `${marker}\n\`\`\`ts\n\`\`\`\nand\n${marker}\n\`\`\`ts\nold\nolder\n\`\`\`\nend\n`
  const fresh = withSnippets(page, () => '// #region all\nnew\n// #endregion\n')
  expect(fresh).toBe(
    `${marker}\n\`\`\`ts\nnew\n\`\`\`\nand\n${marker}\n\`\`\`ts\nnew\n\`\`\`\nend\n`,
  )
  expect(withSnippets(fresh, () => '// #region all\nnew\n// #endregion\n')).toBe(fresh)
})
