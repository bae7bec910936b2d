/**
 * The public surface as text, one listing per entry of the exports map.
 *
 * It is read from the declaration files that the compiler wrote, so it shows what a consumer gets.
 * Every exported name stands there with its whole declaration and without comments, sorted by name.
 * Below the line come the types that an entry does not export but speaks of: they change what
 * callers may pass as much as the others do. A name that another entry exports stands only there.
 */
import { join } from 'node:path'
import ts from '@holdfast-repository/typescript-6'

const HEADINGS = {
  exported: (entry) => `# What \`${entry}\` exports. Written by \`npm run api\`.`,
  reachable: '# Not exported, but part of the above.',
}

/**
 * @param {string} folder What the compiler wrote: the contents of `dist`.
 * @param {Record<string, string>} entries Entry to declaration file in it: `{'.': 'index.d.ts'}`.
 * @returns {Record<string, string>} File name to listing: `{'holdfast.txt': '…'}`.
 */
export function listApi(folder, entries) {
  const paths = Object.values(entries).map((file) => join(folder, file))
  const program = ts.createProgram(paths, {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    noLib: true, // Only names of our own are looked up, and those of the platform are many.
    types: [],
  })
  const checker = program.getTypeChecker()
  const surfaces = Object.entries(entries).flatMap(([entry, file]) => {
    const module = program.getSourceFile(join(folder, file)) // Absent: another test's complaint.
    return module ? [[entry, namesOf(checker, module)]] : []
  })
  const published = new Set(surfaces.flatMap(([, names]) => [...names.values()]))
  return Object.fromEntries(
    surfaces.map(([entry, names]) => [
      fileNameOf(entry),
      listing(checker, folder, entry, names, published),
    ]),
  )
}

/** `.` is `holdfast.txt`, `./guards/postgres` is `guards-postgres.txt`. */
export function fileNameOf(entry) {
  return entry === '.' ? 'holdfast.txt' : `${entry.slice(2).replaceAll('/', '-')}.txt`
}

/** `{'.': 'index.d.ts', …}` of the entries in a package.json that are code. */
export function entriesOf(packageJson) {
  return Object.fromEntries(
    Object.entries(packageJson.exports)
      .filter(([, target]) => typeof target === 'object')
      .map(([entry, { types }]) => [entry, types.replace('./dist/', '')]),
  )
}

/** Name to symbol, re-exports followed to where the thing is declared. */
function namesOf(checker, file) {
  const module = checker.getSymbolAtLocation(file)
  if (!module) throw new Error(`${file.fileName} exports nothing`)
  return new Map(
    checker
      .getExportsOfModule(module)
      .map((symbol) => [shownName(symbol), resolve(checker, symbol)])
      .sort(([a], [b]) => compare(a.replace(/^type /, ''), b.replace(/^type /, ''))),
  )
}

/** By code unit, the same in every locale. */
function compare(a, b) {
  return a < b ? -1 : 1
}

/** A class behind `export type` can be named but not constructed. */
function shownName(symbol) {
  const isTypeOnly = (symbol.declarations ?? []).some((node) =>
    ts.isTypeOnlyExportDeclaration(node),
  )
  return isTypeOnly ? `type ${symbol.getName()}` : symbol.getName()
}

function resolve(checker, symbol) {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
}

function listing(checker, folder, entry, names, published) {
  const parts = [HEADINGS.exported(entry === '.' ? 'holdfast' : `holdfast/${entry.slice(2)}`)]
  for (const [name, symbol] of names) parts.push(declarationOf(symbol, name))
  const reachable = reachableFrom(checker, folder, [...names.values()], published)
  if (reachable.length > 0) parts.push(HEADINGS.reachable)
  for (const symbol of reachable) parts.push(declarationOf(symbol, symbol.getName()))
  return `${parts.join('\n\n')}\n`
}

/** Everything of ours that the declarations name, at any distance, sorted by name. */
function reachableFrom(checker, folder, symbols, published) {
  const found = new Set()
  const queue = [...symbols]
  const visit = (node) => {
    const symbol = ts.isIdentifier(node) && checker.getSymbolAtLocation(node)
    const target = symbol && resolve(checker, symbol)
    if (target && isOwn(target, folder) && !published.has(target) && !found.has(target)) {
      found.add(target)
      queue.push(target)
    }
    ts.forEachChild(node, visit)
  }
  for (const symbol of queue)
    for (const declaration of symbol.declarations ?? []) visit(declaration)
  return [...found].sort((a, b) => compare(a.getName(), b.getName()))
}

/** A top-level thing of a file of ours: no member, no type parameter, nothing of the platform. */
function isOwn(symbol, folder) {
  return (symbol.declarations ?? []).some((declaration) => {
    const statement = ts.isVariableDeclaration(declaration)
      ? declaration.parent.parent
      : declaration
    const isTopLevel = ts.isStatement(statement) && ts.isSourceFile(statement.parent)
    return isTopLevel && declaration.getSourceFile().fileName.startsWith(folder)
  })
}

/** With the export clause where the declaration alone would mislead. */
function declarationOf(symbol, shown) {
  const texts = (symbol.declarations ?? []).map((declaration) => textOf(declaration))
  const name = shown.replace(/^type /, '')
  const isValue = (symbol.flags & ts.SymbolFlags.Value) !== 0
  const keyword = isValue && name !== shown ? 'export type' : 'export'
  const own = symbol.getName()
  if (own === name && keyword === 'export') return texts.join('\n')
  return `${texts.join('\n')}\n${keyword} { ${own === name ? name : `${own} as ${name}`} }`
}

const printer = ts.createPrinter({ removeComments: true, newLine: ts.NewLineKind.LineFeed })

function textOf(declaration) {
  const file = declaration.getSourceFile()
  const text = printer.printNode(ts.EmitHint.Unspecified, declaration, file)
  if (ts.isVariableDeclaration(declaration)) return `const ${text};`
  return text.replace(/^export /, '').replace(/^declare /, '')
}
