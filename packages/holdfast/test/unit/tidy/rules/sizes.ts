/** One sitting each: what does not fit on a few screens is not read, only skimmed. */
import ts from '@holdfast-repository/typescript-6'
import type { Rule, TextFile } from '../repository.ts'
import { at, calleeNames, isCode, lineOf, parse, walk } from '../syntax.ts'

export const FILE_LINES_MAX = 400
export const FUNCTION_LINES_MAX = 70

/** Tighter, for what the README's reading tour promises to be short. */
const FILE_LINES_MAX_OF: Readonly<Record<string, number>> = {
  'packages/holdfast/src/lock/lock.ts': 250,
}

export interface SizeException {
  readonly path: string
  /** The function's name; absent: the file. */
  readonly function?: string
  readonly reason: string
}

/** Each with the reason why splitting would make it worse. One that is not needed is a complaint. */
export const EXCEPTIONS: readonly SizeException[] = []

/** With the exceptions that stand above. */
export const sizes: Rule = (files) => checkSizes(files, EXCEPTIONS)

/** With others: for specimens. */
export function sizesExcept(exceptions: readonly SizeException[]): Rule {
  return (files) => checkSizes(files, exceptions)
}

function checkSizes(files: readonly TextFile[], exceptions: readonly SizeException[]): string[] {
  const used = new Set<SizeException>()
  const isExcepted = (path: string, name: string | undefined): boolean => {
    const exception = exceptions.find((one) => one.path === path && one.function === name)
    if (exception) used.add(exception)
    return exception !== undefined
  }
  const complaints = files.filter(isCode).flatMap((file) => {
    const lines = file.text.replace(/\n$/, '').split('\n').length
    const linesMax = FILE_LINES_MAX_OF[file.path] ?? FILE_LINES_MAX
    const tooLong = longFunctions(file).filter(({ name }) => !isExcepted(file.path, name))
    const own = tooLong.map(({ text }) => text)
    if (lines > linesMax && !isExcepted(file.path, undefined)) {
      own.push(`${file.path}: has ${lines} lines, at most ${linesMax} are allowed`)
    }
    return own
  })
  const unused = exceptions.filter((one) => !used.has(one))
  return [
    ...complaints,
    ...unused.map((one) => `${one.path}: needs no exception for ${one.function ?? 'its length'}`),
  ]
}

function longFunctions(file: TextFile): { name: string; text: string }[] {
  const found: { name: string; text: string }[] = []
  walk(parse(file), (node) => {
    if (!ts.isFunctionLike(node) || !('body' in node) || !node.body || isGroup(node)) return
    const lines = lineOf(node, node.getEnd()) - lineOf(node) + 1
    if (lines <= FUNCTION_LINES_MAX) return
    const name = nameOf(node)
    const text = `${at(file, node)}: ${name} has ${lines} lines, at most ${FUNCTION_LINES_MAX} are allowed`
    found.push({ name, text })
  })
  return found
}

/**
 * A list of tests is no algorithm: the body of `describe`, and a function of a suite that does
 * nothing but hand over titles and tests. The tests in it do count.
 */
function isGroup(node: ts.SignatureDeclaration): boolean {
  const { parent } = node
  if (ts.isCallExpression(parent) && calleeNames(parent.expression).includes('describe'))
    return true
  const body = 'body' in node ? (node.body as ts.Node | undefined) : undefined
  return body !== undefined && ts.isBlock(body) && body.statements.every(isTestOfSuite)
}

/** `check('title', test)`, and `testMore(check)`, which hands the same on. */
function isTestOfSuite(statement: ts.Statement): boolean {
  if (!ts.isExpressionStatement(statement) || !ts.isCallExpression(statement.expression))
    return false
  const { expression, arguments: given } = statement.expression
  const [title, test] = given
  const isTitle = title && (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title))
  if (isTitle && test && ts.isFunctionLike(test)) return true
  return /^test[A-Z]/.test(expression.getText()) && given.every((one) => ts.isIdentifier(one))
}

function nameOf(node: ts.SignatureDeclaration): string {
  if (ts.isConstructorDeclaration(node)) return 'constructor'
  if (node.name) return node.name.getText()
  const { parent } = node
  if (ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent))
    return parent.name.getText()
  if (ts.isCallExpression(parent)) {
    const title = parent.arguments[0]
    const callee = calleeNames(parent.expression).join('.')
    return title && ts.isStringLiteralLike(title) ? `${callee}('${title.text}')` : `${callee}(…)`
  }
  return 'a function'
}
