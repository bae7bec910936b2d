/** A store that is not in the suite, not explained or not reachable does not ship. */
import ts from '@holdfast-repository/typescript-6'
import { findFile, findJson, type Rule, type TextFile } from '../repository.ts'
import { parse } from '../syntax.ts'

const HOLDFAST = 'packages/holdfast/'
/** A backend's own conformance file opens connections and calls the suite; the rest is the suite's. */
const CONFORMANCE_LINES_MAX = 25

export const backends: Rule = (files) => {
  const exported = findJson(files, `${HOLDFAST}package.json`)?.['exports'] ?? {}
  return foldersUnder(files, `${HOLDFAST}src/backends/`).flatMap((name) => {
    const folder = `${HOLDFAST}src/backends/${name}`
    const complaints: string[] = []
    const suites = files.filter(({ path }) => isSuiteOf(name, path))
    if (suites.length === 0) complaints.push(`${folder}: has no conformance test`)
    if (!findFile(files, `docs/backends/${name}.md`)) {
      complaints.push(`${folder}: has no page docs/backends/${name}.md`)
    }
    const isExported = Object.hasOwn(exported, `./${name}`) || isInMain(files, `${name}Backend`)
    if (!isExported) complaints.push(`${folder}: no entry of the package exports it`)
    return [...complaints, ...suites.flatMap(checkLength)]
  })
}

/** `redis.test.ts`, or several of them: `redis-cluster.test.ts`. */
function isSuiteOf(name: string, path: string): boolean {
  const prefix = `${HOLDFAST}test/conformance/${name}`
  return (
    path.endsWith('.test.ts') && (path.startsWith(`${prefix}.`) || path.startsWith(`${prefix}-`))
  )
}

function checkLength({ path, text }: TextFile): string[] {
  const lines = text.replace(/\n$/, '').split('\n').length
  return lines <= CONFORMANCE_LINES_MAX
    ? []
    : [`${path}: has ${lines} lines, at most ${CONFORMANCE_LINES_MAX} are allowed here`]
}

/** Parts of a store may land before the backend itself, `redis-backend.ts` or `memory.ts`. */
function foldersUnder(files: readonly TextFile[], prefix: string): string[] {
  const names = files
    .filter(({ path }) => path.startsWith(prefix))
    .map(({ path }) => path.slice(prefix.length).split('/'))
    .filter(([name, file]) => file === `${name}-backend.ts` || file === `${name}.ts`)
    .map(([name = '']) => name)
  return [...new Set(names)]
}

function isInMain(files: readonly TextFile[], name: string): boolean {
  const main = findFile(files, `${HOLDFAST}src/index.ts`)
  if (!main) return false
  return parse(main).statements.some(
    (statement) =>
      ts.isExportDeclaration(statement) &&
      !statement.isTypeOnly &&
      statement.exportClause !== undefined &&
      ts.isNamedExports(statement.exportClause) &&
      statement.exportClause.elements.some((element) => element.name.text === name),
  )
}
