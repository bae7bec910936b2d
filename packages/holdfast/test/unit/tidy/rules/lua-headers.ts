/**
 * The header of a Lua script says what each KEYS[n] and ARGV[n] is, and nothing else can: Redis
 * numbers them. So each one used has a line, and each line is used.
 *
 *     -- KEYS[1] lock    string, the owner; expires
 *     -- ARGV[2..] names  any number of them, from the second on
 */
import ts from '@holdfast-repository/typescript-6'
import { findFile, type Rule, type TextFile } from '../repository.ts'
import { at, isCode, parse, resolveImport, walk } from '../syntax.ts'

const HEADER = /^\s*--\s*(KEYS|ARGV)\[(\d+)(\.\.)?\]/gm
/** Strings and comments, long and short; the first alternative that fits at a place wins. */
const NO_CODE =
  /--\[(=*)\[[\s\S]*?\]\1\]|--[^\n]*|\[(=*)\[[\s\S]*?\]\2\]|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'/g
const LUA_CALL = /\bredis\.p?call\b/
const SOURCE = 'packages/holdfast/src/'
const CONSTANTS_DEPTH_MAX = 5

export const luaHeaders: Rule = (files) => {
  const reading: Reading = { files, reached: new Set() }
  const sources = files.filter(isCode).filter(({ path }) => path.startsWith(SOURCE))
  const complaints = sources.flatMap((file) => scriptsOf(reading, file))
  return [...complaints, ...sources.flatMap((file) => strayTexts(reading, file))]
}

interface Reading {
  readonly files: readonly TextFile[]
  /** The literals that some script is made of. */
  readonly reached: Set<ts.Node>
}

function scriptsOf(reading: Reading, file: TextFile): string[] {
  const found: string[] = []
  walk(parse(file), (node) => {
    if (!ts.isCallExpression(node) || !isDefinition(node)) return
    const [name, script] = node.arguments
    if (!name || !script) return
    const text = textOf(reading, file, script)
    const where = `${at(file, node)}: script ${name.getText()}`
    if (text === null) found.push(`${where} is not made of constants that can be read here`)
    else found.push(...checkScript(text).map((complaint) => `${where} ${complaint}`))
  })
  return found
}

/** A script that is sent in another way would have no header that anybody checks. */
function strayTexts({ reached }: Reading, file: TextFile): string[] {
  const found: string[] = []
  walk(parse(file), (node) => {
    const isText = ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)
    if (!isText || reached.has(node) || !LUA_CALL.test(node.getText())) return
    found.push(`${at(file, node)}: has Lua that no defineScript uses`)
  })
  return found
}

function isDefinition({ expression }: ts.CallExpression): boolean {
  return ts.isIdentifier(expression) && expression.text === 'defineScript'
}

/** The text of a literal, of a constant here or imported, or of a template made of these. */
function textOf(reading: Reading, file: TextFile, node: ts.Expression, depth = 0): string | null {
  reading.reached.add(node)
  if (ts.isStringLiteralLike(node) || ts.isNumericLiteral(node)) return node.text
  if (ts.isTemplateExpression(node)) {
    const parts = node.templateSpans.map(({ expression, literal }) => {
      const text = textOf(reading, file, expression, depth)
      return text === null ? null : text + literal.text
    })
    return parts.includes(null) ? null : node.head.text + parts.join('')
  }
  if (!ts.isIdentifier(node) || depth >= CONSTANTS_DEPTH_MAX) return null
  const constant = findConstant(reading.files, file, node.text)
  return constant && textOf(reading, constant.file, constant.value, depth + 1)
}

function findConstant(
  files: readonly TextFile[],
  file: TextFile,
  name: string,
): { file: TextFile; value: ts.Expression } | null {
  for (const statement of parse(file).statements) {
    if (ts.isVariableStatement(statement)) {
      const { declarations } = statement.declarationList
      const value = declarations.find((one) => one.name.getText() === name)?.initializer
      if (value) return { file, value }
    } else if (ts.isImportDeclaration(statement)) {
      const bindings = statement.importClause?.namedBindings
      if (!bindings || !ts.isNamedImports(bindings)) continue
      const binding = bindings.elements.find((element) => element.name.text === name)
      const path = resolveImport(file, (statement.moduleSpecifier as ts.StringLiteral).text)
      const target = binding && path !== null ? findFile(files, path) : undefined
      if (target && binding) {
        return findConstant(files, target, (binding.propertyName ?? binding.name).text)
      }
    }
  }
  return null
}

function checkScript(lua: string): string[] {
  const code = lua.replaceAll(NO_CODE, ' ')
  return ['KEYS', 'ARGV'].flatMap((table) => {
    const headers = [...lua.matchAll(HEADER)].filter((match) => match[1] === table)
    const documented = headers.filter((match) => !match[3]).map((match) => Number(match[2]))
    const openFrom = Number(headers.find((match) => match[3])?.[2] ?? Number.POSITIVE_INFINITY)
    const used = numbersUsed(code, table)
    const usesOpen = new RegExp(`\\b${table}\\b(?!\\s*\\[\\s*\\d+\\s*\\])`).test(code)
    const complaints = used
      .filter((n) => !documented.includes(n) && n < openFrom)
      .map((n) => `uses ${table}[${n}], which its header has not`)
    for (const n of documented) {
      if (!used.includes(n)) complaints.push(`has ${table}[${n}] in its header and does not use it`)
    }
    if (usesOpen && openFrom === Number.POSITIVE_INFINITY) {
      complaints.push(`uses ${table} by a computed index; its header has no ${table}[n..]`)
    }
    if (!usesOpen && openFrom !== Number.POSITIVE_INFINITY && !used.some((n) => n >= openFrom)) {
      complaints.push(`has ${table}[${openFrom}..] in its header and does not use it`)
    }
    return complaints
  })
}

function numbersUsed(code: string, table: string): number[] {
  const matches = code.matchAll(new RegExp(`\\b${table}\\s*\\[\\s*(\\d+)\\s*\\]`, 'g'))
  return [...new Set([...matches].map((match) => Number(match[1])))].sort((a, b) => a - b)
}
