/**
 * Who may import whom, and that nobody imports in a circle.
 *
 * A layer may use the ones named beside it and nothing else. The order is that of docs/design.md:
 * words and arithmetic at the bottom, other people's clients above them, then stores and guards;
 * the engine knows no store, and a store knows neither the engine nor another store.
 */
import ts from '@holdfast-repository/typescript-6'
import { findJson, type Rule, type TextFile } from '../repository.ts'
import { at, type Import, importsOf, isCode, resolveImport } from '../syntax.ts'

const SOURCE = 'packages/holdfast/src/'
const COMMAND = 'packages/cli/'
/** No user has a client of etcd at hand, so ours is made here; loaded when it is needed. */
const OWN_DRIVER = `${SOURCE}clients/etcd/member.ts`

const BELOW: Readonly<Record<string, readonly string[]>> = {
  core: [],
  clients: ['core'],
  wire: ['core'],
  backends: ['core', 'clients', 'wire'],
  guards: ['core', 'clients'],
  stores: ['core', 'clients'],
  lock: ['core'],
  recipes: ['core', 'lock'],
  observe: ['core'],
  http: ['core', 'clients', 'lock', 'recipes', 'guards'],
  testkit: ['core', 'lock', 'recipes', 'backends/memory'],
  connect: ['core', 'clients', 'backends', 'lock'],
  // The files of the exports map that lie in src itself: they join the others.
  entry: [
    ...['core', 'clients', 'backends', 'guards', 'stores', 'lock', 'recipes', 'observe', 'http'],
    'connect',
  ],
}

/** `sim` runs everything and ships with nothing: it may import all layers, and none imports it. */
const UNBOUND = 'sim'

interface Place {
  readonly layer: string
  /** The layer, or for backends the one folder: `backends/redis`. */
  readonly unit: string
}

function placeOf(path: string): Place {
  const [layer = '', folder = '', ...rest] = path.slice(SOURCE.length).split('/')
  if (folder === '') return { layer: 'entry', unit: 'entry' }
  const isInFolder = layer === 'backends' && rest.length > 0
  return { layer, unit: isInFolder ? `${layer}/${folder}` : layer }
}

export const layers: Rule = (files) =>
  files.filter(isCode).flatMap((file) => {
    const isSource = file.path.startsWith(SOURCE)
    if (!isSource && !file.path.startsWith(COMMAND)) return []
    return importsOf(file).flatMap((one) => {
      const complaint = isSource ? refuseSource(files, file, one) : refuseCommand(files, file, one)
      return complaint === null ? [] : [`${at(file, one.node)}: ${complaint}`]
    })
  })

function refuseSource(files: readonly TextFile[], file: TextFile, one: Import): string | null {
  const { specifier } = one
  if (specifier.startsWith('node:')) return null
  const target = resolveImport(file, specifier)
  if (target === null) {
    if (placeOf(file.path).layer === 'connect') return refuseDriver(files, one)
    if (file.path === OWN_DRIVER) return refuseForeign(files, one)
    return `imports the package "${specifier}", but holdfast depends on nothing`
  }
  if (target === OWN_DRIVER && one.isValue && !ts.isCallExpression(one.node)) {
    return `imports ${target} before it is needed`
  }
  if (!target.startsWith(SOURCE)) return `imports ${target}, which is not published with it`

  const from = placeOf(file.path)
  const to = placeOf(target)
  if (from.layer === UNBOUND || from.unit === to.unit) return null
  const allowed = BELOW[from.layer]
  if (!allowed) return `lies in "${from.layer}", which is no layer`
  if (from.layer === 'backends' && to.layer === 'backends') {
    return `${from.unit} imports ${to.unit}: backends do not know each other`
  }
  if (allowed.includes(to.layer) || allowed.includes(to.unit)) return null
  return `${from.layer} imports ${to.unit}; it may import ${allowed.join(', ') || 'nothing of ours'}`
}

/** `connect` opens connections: by drivers that a user may have, and only when it needs one. */
function refuseDriver(files: readonly TextFile[], one: Import): string | null {
  const complaint = refuseForeign(files, one)
  if (complaint !== null) return complaint
  const { specifier, node } = one
  return ts.isCallExpression(node) ? null : `imports the package "${specifier}" before it is needed`
}

function refuseForeign(files: readonly TextFile[], { specifier }: Import): string | null {
  const own = findJson(files, 'packages/holdfast/package.json')
  const peers = dependencies(own, 'peerDependenciesMeta') as Record<string, { optional?: unknown }>
  return peers[specifier]?.optional === true
    ? null
    : `imports the package "${specifier}", which is no optional peer of holdfast`
}

/** The command line is a user of the library like any other: public entries only. */
function refuseCommand(files: readonly TextFile[], file: TextFile, one: Import): string | null {
  const { specifier } = one
  if (specifier.startsWith('node:')) return null
  const target = resolveImport(file, specifier)
  if (target !== null) {
    return target.startsWith(COMMAND) ? null : `imports ${target}, past the public entries`
  }
  const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
  if (name === 'holdfast') {
    const entry = `.${specifier.slice(name.length)}`
    const exported = findJson(files, 'packages/holdfast/package.json')?.['exports'] ?? {}
    return Object.hasOwn(exported, entry)
      ? null
      : `imports "${specifier}", which is no public entry`
  }
  if (!file.path.startsWith(`${COMMAND}src/`)) return null
  const own = findJson(files, `${COMMAND}package.json`)
  const declared = { ...(one.isValue ? {} : dependencies(own, 'devDependencies')) }
  Object.assign(declared, dependencies(own, 'dependencies'))
  Object.assign(declared, dependencies(own, 'optionalDependencies'))
  return Object.hasOwn(declared, name) ? null : `imports "${name}", which its package.json lacks`
}

function dependencies(json: Readonly<Record<string, unknown>> | null, kind: string): object {
  return (json?.[kind] as object | undefined) ?? {}
}

/**
 * Only imports that are left in the JavaScript count: `import type` is gone when modules load, and
 * two contracts may speak of each other's types.
 */
export const cycles: Rule = (files) => {
  const code = files.filter(isCode)
  const graph = new Map(
    code.map((file) => [
      file.path,
      importsOf(file)
        .filter(({ isValue }) => isValue)
        .flatMap(({ specifier }) => resolveImport(file, specifier) ?? []),
    ]),
  )
  const found = new Set<string>()
  const done = new Set<string>()
  const visit = (path: string, trail: readonly string[]): void => {
    const start = trail.indexOf(path)
    if (start >= 0) found.add(cycleText(trail.slice(start)))
    if (start >= 0 || done.has(path)) return
    for (const next of graph.get(path) ?? []) visit(next, [...trail, path])
    done.add(path)
  }
  for (const path of [...graph.keys()].sort()) visit(path, [])
  return [...found]
}

/** Begins with the smallest path, so that one cycle has one text. */
function cycleText(cycle: readonly string[]): string {
  const first = [...cycle].sort()[0] as string
  const turned = [...cycle.slice(cycle.indexOf(first)), ...cycle.slice(0, cycle.indexOf(first))]
  return `${first}: imports itself in a circle: ${[...turned, first].join(' > ')}`
}
