/** The rules of tidy, each shown to fail: a rule that cannot complain guards nothing. */
import { expect, it } from 'vitest'
import { exportsMap } from './rules/exports-map.ts'
import { RULES } from './rules/index.ts'
import { ARROW_SPECIMENS } from './specimens/arrows.ts'
import { CODE_SPECIMENS } from './specimens/code.ts'
import { IMPORT_SPECIMENS } from './specimens/imports.ts'
import { SHAPE_SPECIMENS } from './specimens/shape.ts'
import { filesOf } from './specimens/specimen.ts'
import { WORD_SPECIMENS } from './specimens/words.ts'

const SPECIMENS = [
  ...ARROW_SPECIMENS,
  ...IMPORT_SPECIMENS,
  ...SHAPE_SPECIMENS,
  ...CODE_SPECIMENS,
  ...WORD_SPECIMENS,
]
const NAMED = { ...RULES, 'the exports map leads to built files': exportsMap }

for (const [title, rule] of Object.entries(NAMED)) {
  const own = SPECIMENS.filter((specimen) => specimen.rule === rule)
  // The accident: a rule is added, finds nothing, and is believed.
  it(`"${title}" is shown to fail`, () => {
    expect(own.some(({ complaints }) => complaints.length > 0)).toBe(true)
  })

  for (const specimen of own) {
    // The accident: a rule that says too little lets a fault through, one that says too much is
    // soon switched off.
    it(`"${title}" says exactly what is wrong: ${specimen.title}`, () => {
      const run = specimen.run ?? rule
      expect(run(filesOf(specimen))).toEqual(specimen.complaints)
    })
  }
}

it('every specimen is of a rule that is run', () => {
  const rules = Object.values(NAMED)
  expect(SPECIMENS.filter(({ rule }) => !rules.includes(rule))).toEqual([])
})
