/** Style as a test: the rules, run on the repository itself. */
import { expect, it } from 'vitest'
import { readRepository } from './repository.ts'
import { RULES } from './rules/index.ts'

const repository = readRepository()

// The accident: a rule that looks at the wrong folder finds nothing, and nothing is what it reports
// when all is well.
it('the repository is read', () => {
  const paths = repository.map(({ path }) => path)
  expect(paths).toContain('packages/holdfast/src/core/backend.ts')
  expect(paths).toContain('packages/cli/package.json')
  expect(paths).toContain('scripts/run.mjs')
  expect(paths.filter((path) => /(?:^|\/)(?:node_modules|dist)\//.test(path))).toEqual([])
})

for (const [title, rule] of Object.entries(RULES)) {
  // The accident: a convention that lives in heads alone is broken by the next newcomer.
  it(title, () => {
    expect(rule(repository)).toEqual([])
  })
}
