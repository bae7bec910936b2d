/** Syntax trees for the rules. The parser is TypeScript 6: version 7 has no JavaScript interface. */
import { posix } from 'node:path'
import ts from '@holdfast-repository/typescript-6'
import type { TextFile } from './repository.ts'

const trees = new WeakMap<TextFile, ts.SourceFile>()

/** Sources and tests that a person wrote; declaration files are not among them. */
export function isCode({ path }: TextFile): boolean {
  return /\.(?:ts|mts|mjs|js)$/.test(path) && !path.endsWith('.d.ts') && !path.includes('/dist/')
}

export function parse(file: TextFile): ts.SourceFile {
  const known = trees.get(file)
  if (known) return known
  const kind = file.path.endsWith('ts') ? ts.ScriptKind.TS : ts.ScriptKind.JS
  const tree = ts.createSourceFile(file.path, file.text, ts.ScriptTarget.Latest, true, kind)
  trees.set(file, tree)
  return tree
}

/** Visits a node and all below it, parents first. */
export function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node)
  ts.forEachChild(node, (child) => walk(child, visit))
}

/** Counted from 1. */
export function lineOf(node: ts.Node, position: number = node.getStart()): number {
  return node.getSourceFile().getLineAndCharacterOfPosition(position).line + 1
}

/** `path:line`, the beginning of a complaint. */
export function at(file: TextFile, node: ts.Node): string {
  return `${file.path}:${lineOf(node)}`
}

export interface Import {
  readonly specifier: string
  /** Whether it is left in the JavaScript. `import { type A }` is: only `import type` goes. */
  readonly isValue: boolean
  readonly node: ts.Node
}

/** Every form: import, export from, `import()`, `require()`, and `import('…')` in a type. */
export function importsOf(file: TextFile): Import[] {
  const found: Import[] = []
  const add = (specifier: ts.Node | undefined, isValue: boolean, node: ts.Node): void => {
    if (specifier && ts.isStringLiteralLike(specifier)) {
      found.push({ specifier: specifier.text, isValue, node })
    }
  }
  walk(parse(file), (node) => {
    if (ts.isImportDeclaration(node)) {
      add(node.moduleSpecifier, node.importClause?.isTypeOnly !== true, node)
    } else if (ts.isExportDeclaration(node)) {
      add(node.moduleSpecifier, !node.isTypeOnly, node)
    } else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      add(node.argument.literal, false, node)
    } else if (ts.isCallExpression(node) && isImportCall(node)) {
      add(node.arguments[0], true, node)
    }
  })
  return found
}

function isImportCall({ expression }: ts.CallExpression): boolean {
  if (expression.kind === ts.SyntaxKind.ImportKeyword) return true
  return ts.isIdentifier(expression) && expression.text === 'require'
}

/** The path that a relative specifier means, or null for a package. */
export function resolveImport(file: TextFile, specifier: string): string | null {
  if (!specifier.startsWith('.')) return null
  return posix.join(posix.dirname(file.path), specifier)
}

/** `a.b.c(…)` gives `['a', 'b', 'c']`, and `a.b(…).c(…)` too; what is no plain name is left out. */
export function calleeNames(expression: ts.Expression): string[] {
  if (ts.isIdentifier(expression)) return [expression.text]
  if (ts.isPropertyAccessExpression(expression)) {
    return [...calleeNames(expression.expression), expression.name.text]
  }
  if (ts.isCallExpression(expression)) return calleeNames(expression.expression)
  if (ts.isTaggedTemplateExpression(expression)) return calleeNames(expression.tag)
  return []
}
