/** Every word that a program may branch on is explained in docs/errors.md, and no other. */
import ts from '@holdfast-repository/typescript-6'
import { findFile, type Rule, type TextFile } from '../repository.ts'
import { parse } from '../syntax.ts'

const SOURCE = 'packages/holdfast/src/core/errors.ts'
const PAGE = 'docs/errors.md'

/** A union of texts in the source, and the heading under which the page has its table. */
const UNIONS: Readonly<Record<string, string>> = {
  LockErrorCode: '## Codes',
  LossReason: '## Why a lease was lost',
  UnavailableReason: '## Why a store is unavailable',
}

export const errorDocs: Rule = (files) => {
  const source = findFile(files, SOURCE)
  const page = findFile(files, PAGE)
  if (!source) return []
  if (!page) return [`${PAGE}: is missing`]
  return [
    ...Object.entries(UNIONS).flatMap(([union, heading]) => {
      const members = membersOf(source, union)
      const rows = rowsUnder(page.text, heading)
      return [
        ...members
          .filter((member) => !rows.includes(member))
          .map((member) => `${PAGE}: "${heading}" has no row for ${member} of ${union}`),
        ...rows
          .filter((row) => !members.includes(row))
          .map((row) => `${PAGE}: "${heading}" has a row for ${row}, which ${union} has not`),
        ...rows
          .filter((row, index) => rows.indexOf(row) !== index)
          .map((row) => `${PAGE}: "${heading}" has two rows for ${row}`),
      ]
    }),
    ...errorClassesOf(source)
      .filter((name) => !page.text.includes(`\`${name}\``))
      .map((name) => `${PAGE}: does not name the class ${name}`),
  ]
}

function membersOf(source: TextFile, name: string): string[] {
  return parse(source).statements.flatMap((statement) => {
    if (!ts.isTypeAliasDeclaration(statement) || statement.name.text !== name) return []
    const { type } = statement
    const parts = ts.isUnionTypeNode(type) ? [...type.types] : [type]
    return parts.map((part) => {
      if (ts.isLiteralTypeNode(part) && ts.isStringLiteral(part.literal)) return part.literal.text
      throw new Error(`${SOURCE}: ${name} has a member that is no text: ${part.getText()}`)
    })
  })
}

function errorClassesOf(source: TextFile): string[] {
  return parse(source).statements.flatMap((statement) =>
    ts.isClassDeclaration(statement) && statement.name ? [statement.name.text] : [],
  )
}

/** First cells of the table under a heading, up to the next heading, without the backquotes. */
function rowsUnder(page: string, heading: string): string[] {
  const lines = page.split('\n')
  const start = lines.indexOf(heading)
  if (start < 0) return []
  const end = lines.findIndex((line, index) => index > start && line.startsWith('#'))
  const section = lines.slice(start + 1, end < 0 ? undefined : end)
  return section.flatMap((line) => /^\| `([^`]+)` \|/.exec(line)?.[1] ?? [])
}
