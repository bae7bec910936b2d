/** A process of contenders: does what it is told over IPC, one order after another, and ends with it. */
import { contend, type Section } from './contend.ts'
import { CLIENTS, type Locker } from './contestant.ts'
import { holdfast } from './contestants/holdfast.ts'
import { peersOn } from './contestants/peers.ts'
import type { Answer, Order } from './groups/processes.ts'

const lockers = new Map<string, Locker>()

async function obey(order: Order): Promise<readonly Section[]> {
  if ('open' in order) {
    lockers.set(order.open, await open(order.who, order.client, order.port))
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

async function open(who: string, clientName: string, port: number): Promise<Locker> {
  const known = CLIENTS.flatMap((client) => [holdfast(client), ...peersOn(client)])
  const contestant = known.find((one) => one.who === who && one.client === clientName)
  if (contestant === undefined) throw new Error(`${who} on ${clientName} is not known here`)
  return contestant.connect(port)
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
