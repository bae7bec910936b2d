/**
 * Each arrow between two layers on its own: refused or let through. The table is written down a
 * second time on purpose: who loosens the one of the rule must loosen this one too.
 */
import { posix } from 'node:path'
import { layers } from '../rules/layers.ts'
import type { Specimen } from './specimen.ts'

const SRC = 'packages/holdfast/src'

/** By the name that the rule gives it; the files need not exist. */
const PLACES = {
  core: 'core/a.ts',
  clients: 'clients/a.ts',
  wire: 'wire/a.ts',
  'backends/memory': 'backends/memory/a.ts',
  'backends/redis': 'backends/redis/a.ts',
  guards: 'guards/a.ts',
  stores: 'stores/a.ts',
  lock: 'lock/a.ts',
  recipes: 'recipes/a.ts',
  observe: 'observe/a.ts',
  http: 'http/a.ts',
  testkit: 'testkit/a.ts',
  entry: 'a.ts',
  sim: 'sim/a.ts',
} as const

type Unit = keyof typeof PLACES

interface Row {
  readonly from: Exclude<Unit, 'sim'>
  readonly may: readonly Unit[]
  /** How the rule names the layer, and what it tells of it, where that is not the list itself. */
  readonly layer?: string
  readonly told?: string
}

const ROWS: readonly Row[] = [
  { from: 'core', may: [], told: 'nothing of ours' },
  { from: 'clients', may: ['core'] },
  { from: 'wire', may: ['core'] },
  { from: 'backends/memory', layer: 'backends', may: ['core', 'clients', 'wire'] },
  { from: 'backends/redis', layer: 'backends', may: ['core', 'clients', 'wire'] },
  { from: 'guards', may: ['core', 'clients'] },
  { from: 'stores', may: ['core', 'clients'] },
  { from: 'lock', may: ['core'] },
  { from: 'recipes', may: ['core', 'lock'] },
  { from: 'observe', may: ['core'] },
  { from: 'http', may: ['core', 'clients', 'lock', 'recipes', 'guards'] },
  { from: 'testkit', may: ['core', 'lock', 'recipes', 'backends/memory'] },
  {
    from: 'entry',
    may: [
      ...(['core', 'clients', 'backends/memory', 'backends/redis', 'guards', 'stores'] as const),
      ...(['lock', 'recipes', 'observe', 'http'] as const),
    ],
    told: 'core, clients, backends, guards, stores, lock, recipes, observe, http, connect',
  },
]

const UNITS = Object.keys(PLACES) as Unit[]

export const ARROW_SPECIMENS: readonly Specimen[] = ROWS.flatMap((row) =>
  UNITS.filter((to) => to !== row.from).map((to) => arrow(row, to)),
)

function arrow({ from, may, layer = from, told = may.join(', ') }: Row, to: Unit): Specimen {
  const path = `${SRC}/${PLACES[from]}`
  const relative = posix.relative(posix.dirname(path), `${SRC}/${PLACES[to]}`)
  const specifier = relative.startsWith('.') ? relative : `./${relative}`
  const areBackends = layer === 'backends' && to.startsWith('backends/')
  const complaint = areBackends
    ? `${from} imports ${to}: backends do not know each other`
    : `${layer} imports ${to}; it may import ${told}`
  return {
    rule: layers,
    title: may.includes(to) ? `nothing: ${from} may import ${to}` : `${from} imports ${to}`,
    files: { [path]: `import { a } from '${specifier}'\n` },
    complaints: may.includes(to) ? [] : [`${path}:1: ${complaint}`],
  }
}
