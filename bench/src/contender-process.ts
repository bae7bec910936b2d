/** A process of contenders: does what it is told over IPC, one order after another, and ends with it. */
import { contend, type Section } from './contend.ts'
import { CLIENTS, type Label, type Locker } from './contestant.ts'
import { fileContestants } from './contestants/files.ts'
import { holdfast } from './contestants/holdfast.ts'
import { peersOn } from './contestants/peers.ts'
import type { Answer, Order } from './groups/processes.ts'

const lockers = new Map<string, Locker>()

async function obey(order: Order): Promise<readonly Section[]> {
  if ('open' in order) {
    lockers.set(order.open, await open(order.label, order.at))
    return []
  }
  if ('contend' in order) return contend(lockerOf(order.contend), order.crowd)
  await lockerOf(order.close).close()
  lockers.delete(order.close)
  return []
}

function lockerOf(place: string): Locker {
  const locker = lockers.get(place)
  if (locker === undefined) throw new Error(`${place} was not opened`)
  return locker
}

function open(label: Label, at: number | string): Promise<Locker> {
  if (typeof at === 'string') return known(fileContestants(), label).connect(at)
  const all = CLIENTS.flatMap((client) => [holdfast(client), ...peersOn(client)])
  return known(all, label).connect(at)
}

function known<T extends Label>(all: readonly T[], { who, variant, client }: Label): T {
  const found = all.find(
    (one) => one.who === who && one.variant === variant && one.client === client,
  )
  if (found === undefined) throw new Error(`${who} on ${client} is not known here`)
  return found
}

async function answer(order: Order): Promise<Answer> {
  try {
    return { sections: await obey(order) }
  } catch (error) {
    return { failed: error instanceof Error ? error.message : String(error) }
  }
}

process.on('message', async (order: Order) => {
  process.send?.(await answer(order))
})
// Whoever started it is gone.
process.on('disconnect', () => process.exit(0))
