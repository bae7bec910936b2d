/** The bugs of lock nodes as the simulation runs them, and as the comparison with a real Redis does. */
import { type Elsewhere, type Mutant, NODE_SIDE } from './mutants.ts'
import { type NodeMutant, readNodeMutants } from './mutate.ts'

const COMPARISON = 'packages/holdfast/test/faults/redis-model-mutants.test.ts'

/** `simulated`: the models; `declared`: the Lua texts. */
export type NodeSideMutants = Readonly<{
  simulated: readonly Mutant[]
  declared: readonly Elsewhere[]
}>

export async function nodeSideMutants(): Promise<NodeSideMutants> {
  return split(await readNodeMutants())
}

/** @throws Error when a bug is said to show that is not in the list. */
export function split(pairs: readonly NodeMutant[]): NodeSideMutants {
  const byName = new Map(pairs.map((pair) => [pair.name, pair]))
  const simulated = Object.entries(NODE_SIDE).map(([name, { as = name, ...shown }]): Mutant => {
    const pair = byName.get(name)
    if (pair === undefined) throw new Error(`no bug of a node is called ${name}`)
    return { name: as, ...shown, patches: [pair.model] }
  })
  const declared = pairs.map(({ name }): Elsewhere => {
    const lua = `${NODE_SIDE[name]?.as ?? name} (Lua)`
    return { name: lua, caught: 'differential', where: COMPARISON }
  })
  return { simulated, declared }
}
