/** A test that cannot fail, or is left out, is worse than none: it is counted. */
import ts from '@holdfast-repository/typescript-6'
import type { Rule, TextFile } from '../repository.ts'
import { at, calleeNames, importsOf, isCode, parse, walk } from '../syntax.ts'

const TEST = /\.test\.(?:ts|mjs)$/
const LEFT_OUT = new Set(['skip', 'only', 'todo'])

/** The gate's last lines send the reader to the reasons, and no reporter prints a condition. */
const LEFT_OUT_IF = new Set(['skipIf', 'runIf'])

/** `skipIf` stays where the file says the reason: what a machine lacks is no fault of the test. */
export const leftOut: Rule = (files) =>
  files.filter(isTest).flatMap((file) => {
    const found: string[] = []
    const conditions: ts.PropertyAccessExpression[] = []
    let saysWhy = false
    walk(parse(file), (node) => {
      if (!ts.isPropertyAccessExpression(node) || !isCalled(node)) return
      const { text } = node.name
      if (node.getText() === 'console.warn') saysWhy = true
      if (LEFT_OUT.has(text)) found.push(`${at(file, node)}: leaves tests out by .${text}`)
      if (LEFT_OUT_IF.has(text)) conditions.push(node)
    })
    if (saysWhy) return found
    const silent = conditions.map(
      (node) => `${at(file, node)}: leaves tests out by .${node.name.text} and never says why`,
    )
    return [...found, ...silent]
  })

/** Directly, or through `.each(…)`. */
function isCalled(node: ts.Node): boolean {
  const { parent } = node
  if (ts.isPropertyAccessExpression(parent)) return isCalled(parent)
  const isCallee = ts.isCallExpression(parent) && parent.expression === node
  return isCallee || ts.isTaggedTemplateExpression(parent)
}

export const assertions: Rule = (files) =>
  files.filter(isTest).flatMap((file) => {
    const names = assertingNames(file)
    const found: string[] = []
    let hasAssertion = false
    walk(parse(file), (node) => {
      if (!ts.isCallExpression(node)) return
      const callee = calleeNames(node.expression)
      if (names.has(callee[0] ?? '')) hasAssertion = true
      if (callee.join('.') === 'expect' && ts.isExpressionStatement(node.parent)) {
        found.push(`${at(file, node)}: expects nothing of what it is given`)
      }
    })
    return hasAssertion ? found : [...found, `${file.path}: asserts nothing`]
  })

/** vitest's and node's own, and the suites that `holdfast/testkit` publishes. */
function assertingNames(file: TextFile): Set<string> {
  const names = new Set(['expect', 'assert'])
  for (const { specifier, node } of importsOf(file)) {
    if (!ts.isImportDeclaration(node)) continue
    const isAssert = /^node:assert(?:\/strict)?$/.test(specifier)
    const isTestkit = specifier === 'holdfast/testkit' || specifier.includes('/testkit/')
    const bindings = node.importClause?.namedBindings
    if (isAssert && node.importClause?.name) names.add(node.importClause.name.text)
    if (!bindings || !ts.isNamedImports(bindings)) continue
    for (const { name } of bindings.elements) {
      if (isAssert || (isTestkit && /^test[A-Z]/.test(name.text))) names.add(name.text)
    }
  }
  return names
}

/** An error that is dropped must say why it may be. */
export const emptyCatches: Rule = (files) =>
  files.filter(isCode).flatMap((file) => {
    const found: string[] = []
    walk(parse(file), (node) => {
      const block = catchBlock(node)
      if (!block || block.statements.length > 0 || /\/[/*]/.test(block.getText())) return
      if (isExplainedAbove(file, node)) return
      found.push(`${at(file, block)}: drops an error without a comment that says why`)
    })
    return found
  })

/** `catch {}`, and `.catch(() => {})`. */
function catchBlock(node: ts.Node): ts.Block | null {
  if (ts.isCatchClause(node)) return node.block
  if (!ts.isArrowFunction(node) && !ts.isFunctionExpression(node)) return null
  if (!ts.isBlock(node.body) || !ts.isCallExpression(node.parent)) return null
  const { expression, arguments: given } = node.parent
  if (!ts.isPropertyAccessExpression(expression)) return null
  const { text } = expression.name
  const isHandler =
    (text === 'catch' && given[0] === node) || (text === 'then' && given[1] === node)
  return isHandler ? node.body : null
}

/** For the one-liner `x.catch(() => {})`: a comment right above its statement. */
function isExplainedAbove(file: TextFile, node: ts.Node): boolean {
  if (ts.isCatchClause(node)) return false
  let statement: ts.Node = node
  while (statement.parent && !ts.isBlock(statement.parent) && !ts.isSourceFile(statement.parent)) {
    statement = statement.parent
  }
  return (ts.getLeadingCommentRanges(file.text, statement.getFullStart()) ?? []).length > 0
}

function isTest(file: TextFile): boolean {
  return isCode(file) && TEST.test(file.path)
}
