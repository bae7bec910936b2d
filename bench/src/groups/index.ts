/** What is compared, in the order in which it runs. */
import { CLIENTS, type Contestant } from '../contestant.ts'
import { handWritten } from '../contestants/hand-written.ts'
import { holdfast } from '../contestants/holdfast.ts'
import { peersOn } from '../contestants/peers.ts'
import { type Entry, type Extent, type Failure, failureOf } from '../measure.ts'
import { contendersEntry } from './contenders.ts'
import { type Bed, pairsEntry } from './pairs.ts'

export const GROUPS = ['one-in-flight', '64-in-flight', '16-contenders'] as const
export type GroupName = (typeof GROUPS)[number]

export interface Profile {
  /** Of each group; odd, so that the median is a run. */
  readonly runs: number
  /** Of one run, by group. Milliseconds. */
  readonly runMs: Readonly<Record<GroupName, number>>
  /** How long contenders come anew in one slice. Milliseconds. */
  readonly contendMs: number
}

export const PROFILES: Readonly<Record<'full' | 'quick', Profile>> = {
  full: {
    runs: 7,
    runMs: { 'one-in-flight': 10_000, '64-in-flight': 8_000, '16-contenders': 20_000 },
    contendMs: 1_000,
  },
  quick: {
    runs: 5,
    runMs: { 'one-in-flight': 2_500, '64-in-flight': 1_500, '16-contenders': 2_500 },
    contendMs: 150,
  },
}

export interface Ready {
  readonly entries: readonly Entry[]
  readonly failures: readonly Failure[]
}

/** Connects everybody who takes part. Who cannot is told of, and the others go on. */
export async function prepare(
  group: GroupName,
  bed: Bed,
  { contendMs }: Profile,
  withPeers: boolean,
): Promise<Ready> {
  const entries: Entry[] = []
  const failures: Failure[] = []
  for (const contestant of contestantsOf(group, withPeers)) {
    try {
      entries.push(await entryOf(group, contestant, bed, contendMs))
    } catch (error) {
      failures.push(failureOf(contestant, error))
    }
  }
  return { entries, failures }
}

function entryOf(
  group: GroupName,
  contestant: Contestant,
  bed: Bed,
  contendMs: number,
): Promise<Entry> {
  if (group === '16-contenders') return contendersEntry(contestant, contendMs, bed)
  return pairsEntry(contestant, group === 'one-in-flight' ? 1 : 64, bed)
}

function contestantsOf(group: GroupName, withPeers: boolean): Contestant[] {
  return CLIENTS.flatMap((client) => {
    const own = [handWritten(client, true), holdfast(client)]
    // Without a token it is what most people write; with contenders it would only be the same again.
    if (group !== '16-contenders') own.push(handWritten(client, false))
    return withPeers ? [...own, ...peersOn(client)] : own
  })
}

export function extentOf(group: GroupName, { runs, runMs }: Profile): Extent {
  return { runs, runMs: runMs[group] }
}
