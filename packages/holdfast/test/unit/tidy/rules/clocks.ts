/**
 * Clocks, timers and randomness are read in two files only, so that a test or a simulation that
 * replaces the seams has replaced all of them.
 */
import ts from '@holdfast-repository/typescript-6'
import type { Rule, TextFile } from '../repository.ts'
import { at, importsOf, isCode, parse } from '../syntax.ts'

const SOURCE = 'packages/holdfast/src/'
/**
 * The testkit makes clocks for others, and bounds its own waiting for real servers; the simulation's
 * scheduler lets the real event loop turn once between two events.
 */
const EXEMPT = [
  `${SOURCE}core/clock.ts`,
  `${SOURCE}core/owner.ts`,
  `${SOURCE}testkit/`,
  `${SOURCE}sim/scheduler.ts`,
]

/** As a global, `globalThis.x`, or the base of a member: `Date.now`, `performance.timeOrigin`. */
const GLOBALS = new Set(['Date', 'performance', 'setTimeout', 'setInterval', 'setImmediate'])
/** Of one object. */
const MEMBERS = new Set(['Math.random', 'AbortSignal.timeout'])
/** Of any object: `os.uptime`, `process.hrtime`, `crypto.randomUUID`, whatever the object is called. */
const MEMBER = /^(?:hrtime|uptime|getRandomValues|random(?:UUID|Bytes|Int|Fill|FillSync))$/
const MODULES = new Set(['node:timers', 'node:timers/promises', 'node:perf_hooks'])

export const clocks: Rule = (files) =>
  files
    .filter(isCode)
    .filter(({ path }) => path.startsWith(SOURCE))
    .filter(({ path }) => !EXEMPT.some((prefix) => path.startsWith(prefix)))
    .flatMap(complaintsOf)

function complaintsOf(file: TextFile): string[] {
  const found = importsOf(file)
    .filter(({ specifier, isValue }) => isValue && MODULES.has(specifier))
    .map(({ specifier, node }) => complaint(file, node, specifier))
  const visit = (node: ts.Node): void => {
    // A type reads no clock: `ReturnType<typeof setTimeout>`.
    if (ts.isTypeNode(node)) return
    const what = bannedBy(node)
    if (what !== null) found.push(complaint(file, node, what))
    // Below a complaint lie only its parts: `Date` of `Date.now`.
    else ts.forEachChild(node, visit)
  }
  visit(parse(file))
  return found
}

function complaint(file: TextFile, node: ts.Node, what: string): string {
  return `${at(file, node)}: ${what} is for core/clock.ts and core/owner.ts; use the seams`
}

function bannedBy(node: ts.Node): string | null {
  if (ts.isImportSpecifier(node)) {
    const { text } = node.propertyName ?? node.name
    return MEMBER.test(text) ? text : null
  }
  if (ts.isPropertyAccessExpression(node)) return bannedMember(node.expression, node.name.text)
  if (ts.isElementAccessExpression(node) && ts.isStringLiteralLike(node.argumentExpression)) {
    return bannedMember(node.expression, node.argumentExpression.text)
  }
  if (ts.isIdentifier(node) && GLOBALS.has(node.text) && isReference(node)) return node.text
  return null
}

function bannedMember(object: ts.Expression, name: string): string | null {
  const base = object.getText()
  if (base === 'globalThis' && GLOBALS.has(name)) return `${base}.${name}`
  if (GLOBALS.has(base) || MEMBERS.has(`${base}.${name}`)) return `${base}.${name}`
  return MEMBER.test(name) ? `${base}.${name}` : null
}

/** A use of the name, not its declaration, a key or the name after a dot. */
function isReference(node: ts.Identifier): boolean {
  const { parent } = node
  if (ts.isPropertyAccessExpression(parent)) return parent.expression === node
  if (ts.isShorthandPropertyAssignment(parent)) return true
  if (ts.isBindingElement(parent)) return parent.initializer === node
  const isNamed = 'name' in parent && parent.name === node
  return !isNamed && !ts.isImportSpecifier(parent) && !ts.isExportSpecifier(parent)
}
