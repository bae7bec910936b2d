/** Locks in an etcd of one member: alone, 64 at once, contended, and with many who wait. */
import { startEtcd } from '../../../packages/cli/dist/lab/servers/index.js'
import { contend } from '../contend.ts'
import type { Locker } from '../contestant.ts'
import {
  type EtcdContestant,
  goAlgorithm,
  holdfastEtcd,
  twoTransactions,
} from '../contestants/etcd.ts'
import { EtcdLook } from '../etcd-look.ts'
import { type Entry, type Failure, failureOf } from '../measure.ts'
import { type Arena, CONTENDERS, learnMsOf, slicesOf } from './contenders.ts'
import { electionEntries } from './election.ts'
import { pairsSlice } from './pairs.ts'

const ETCD_GROUPS = [
  'etcd',
  'etcd-64-in-flight',
  'etcd-16-contenders',
  'etcd-waiters',
  'election',
] as const
export type EtcdGroup = (typeof ETCD_GROUPS)[number]

export function isEtcdGroup(group: string): group is EtcdGroup {
  return (ETCD_GROUPS as readonly string[]).includes(group)
}

/** Of one slice: about as long as the slices of the other groups. */
const PAIRS = { alone: 100, together: 512 } as const
/** Each has a connection and a watch of its own, as a process has. */
export const WATCHING_PROCESSES = 10
/** Waiters of all processes together. */
export const WAITERS = [10, 500] as const

export interface EtcdBed {
  readonly endpoint: string
  readonly look: EtcdLook
  close(): Promise<void>
}

export async function openEtcdServer(): Promise<EtcdBed> {
  const server = await startEtcd()
  const look = new EtcdLook(server.endpoint)
  const close = async (): Promise<void> => {
    look.close()
    await server.stop()
  }
  return { endpoint: server.endpoint, look, close }
}

export interface EtcdEntries {
  readonly entries: readonly Entry[]
  readonly failures: readonly Failure[]
  close(): Promise<void>
}

export async function openEtcdBed(group: EtcdGroup, contendMs: number): Promise<EtcdEntries> {
  const bed = await openEtcdServer()
  const entries: Entry[] = []
  const failures: Failure[] = []
  try {
    if (group === 'election') entries.push(...(await electionEntries(bed)))
    else {
      for (const [contestant, open] of contestantsOf(group, contendMs, bed)) {
        try {
          entries.push(await open())
        } catch (error) {
          failures.push(failureOf(contestant, error))
        }
      }
    }
    return { entries, failures, close: () => bed.close() }
  } catch (error) {
    await bed.close()
    throw error
  }
}

type Opening = readonly [contestant: EtcdContestant, open: () => Promise<Entry>]

function contestantsOf(
  group: Exclude<EtcdGroup, 'election'>,
  contendMs: number,
  bed: EtcdBed,
): Opening[] {
  if (group === 'etcd-16-contenders') {
    return [goAlgorithm, holdfastEtcd()].map((one) => [
      one,
      () => etcdCrowdEntry(one, 1, CONTENDERS, contendMs, bed),
    ])
  }
  if (group === 'etcd-waiters') {
    return WAITERS.map((waiters) => {
      const one = holdfastEtcd(`${waiters} waiters`, `waiters-${waiters}/`)
      return [one, () => etcdCrowdEntry(one, WATCHING_PROCESSES, waiters, contendMs, bed)]
    })
  }
  const inFlight = group === 'etcd' ? 1 : 64
  return [twoTransactions, holdfastEtcd()].map((one) => [
    one,
    () => etcdPairsEntry(one, inFlight, bed),
  ])
}

/** @throws when it does not lock. */
export async function etcdPairsEntry(
  contestant: EtcdContestant,
  inFlight: number,
  { endpoint, look }: EtcdBed,
): Promise<Entry> {
  const locker = await contestant.connect(endpoint)
  const pairs = inFlight === 1 ? PAIRS.alone : PAIRS.together
  try {
    await checkThatItLocks(locker, look)
    await pairsSlice(locker, inFlight, pairs)
  } catch (error) {
    await locker.close()
    throw error
  }
  return {
    ...labelOf(contestant, contestant === twoTransactions),
    inFlight,
    slice: async () => {
      const { result, served } = await look.served(() => pairsSlice(locker, inFlight, pairs))
      const left = await look.keysOnLeases()
      if (left > 0) throw new Error(`${left} locks stand although all were released`)
      return { ...result, requests: served.requests }
    },
    close: () => locker.close(),
  }
}

/** What is measured must be a lock: a key on a lease while it is held, and none after. */
async function checkThatItLocks(locker: Locker, look: EtcdLook): Promise<void> {
  const release = await locker.acquire('bench-check')
  const held = await look.keysOnLeases()
  await release()
  const left = await look.keysOnLeases()
  if (held !== 1 || left !== 0) {
    throw new Error(`keys on leases: ${held} while it was held, ${left} after; 1 and 0 are right`)
  }
}

/**
 * @param processes As many connections, with an equal part of the workers each.
 * @throws when two hold the name at once.
 */
export async function etcdCrowdEntry(
  contestant: EtcdContestant,
  processes: number,
  workers: number,
  contendMs: number,
  { endpoint, look }: EtcdBed,
): Promise<Entry> {
  const lockers: Locker[] = []
  const close = async (): Promise<void> => {
    await Promise.all(lockers.map((locker) => locker.close()))
  }
  const each = workers / processes
  const arena: Arena = {
    workers,
    contend: async (endMs, turn) => {
      const crowds = lockers.map((locker, index) =>
        contend(locker, { workers: each, firstWorker: index * each, endMs, turn }),
      )
      return (await Promise.all(crowds)).flat()
    },
    close,
  }
  const slice = slicesOf(arena)
  try {
    while (lockers.length < processes) lockers.push(await contestant.connect(endpoint))
    await slice(learnMsOf(arena))
  } catch (error) {
    await close()
    throw error
  }
  const isReference = contestant === goAlgorithm || (processes > 1 && workers === WAITERS[0])
  return {
    ...labelOf(contestant, isReference),
    inFlight: workers,
    slice: async () => {
      const { result, served } = await look.served(() => slice(contendMs))
      const { requests } = served
      return { ...result, requests, events: served.events / processes }
    },
    close,
  }
}

function labelOf({ who, variant, client, isOwnerChecked }: EtcdContestant, isReference: boolean) {
  return { who, variant, client, isOwnerChecked, isReference, comparedWith: client }
}
