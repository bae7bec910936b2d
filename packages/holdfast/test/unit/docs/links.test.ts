import { existsSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import { expect, it } from 'vitest'
import { ROOT, type TextFile } from '../tidy/repository.ts'
import { anchorsOf, linksOf, pages } from './pages.ts'

/** One sentence for each link that leads nowhere. Links to other sites are not followed. */
function deadLinks(all: readonly TextFile[]): string[] {
  return all.flatMap((page) =>
    linksOf(page).flatMap(({ line, target }) => {
      if (/^[a-z]+:/.test(target)) return []
      const [path = '', anchor] = target.split('#')
      const file = path === '' ? page.path : normalize(join(dirname(page.path), path))
      const place = `${page.path}:${line}`
      if (!existsSync(join(ROOT, file))) return [`${place}: there is no ${file}`]
      if (anchor === undefined) return []
      const other = all.find((candidate) => candidate.path === file)
      const isThere = other !== undefined && anchorsOf(other).has(anchor)
      return isThere ? [] : [`${place}: ${file} has no heading #${anchor}`]
    }),
  )
}

// The accident: a page is moved or renamed, and every page that sends readers there goes on to.
it('every link inside the repository leads somewhere', () => {
  const all = pages()
  expect(all.map(({ path }) => path)).toContain('README.md')
  expect(all.flatMap(linksOf).length).toBeGreaterThan(20)
  expect(deadLinks(all)).toEqual([])
})

it('a dead link, and a dead anchor, are found', () => {
  const text = '# One title\n\n[a](README.md) [b](no-such-page.md)\n[c](#one-title) [d](#another)\n'
  expect(deadLinks([{ path: 'README.md', text }])).toEqual([
    'README.md:3: there is no no-such-page.md',
    'README.md:4: README.md has no heading #another',
  ])
})

it('what looks like a link in code is none', () => {
  const text = '`a[0](gone.md)`\n\n```ts\nb[0](gone.md)\n```\n'
  expect(linksOf({ path: 'page.md', text })).toEqual([])
})
