/** What is compared, in the order in which it runs. */
import { CLIENTS, type ClientName, type Contestant } from '../contestant.ts'
import { handWritten } from '../contestants/hand-written.ts'
import { holdfast } from '../contestants/holdfast.ts'
import { peersOn } from '../contestants/peers.ts'
import { type Entry, type Extent, type Failure, failureOf } from '../measure.ts'
import { contendersEntry } from './contenders.ts'
import { isEtcdGroup, openEtcdBed } from './etcd.ts'
import { openFileBed } from './files.ts'
import { pairsEntry } from './pairs.ts'
import { ContenderProcesses, CROWDS } from './processes.ts'
import { openRedisBed, type RedisBed } from './redis-bed.ts'
import type { QuorumProfile } from './redlock.ts'
import { openTransactionBed } from './transactions.ts'

export const GROUPS = [
  'one-in-flight',
  '64-in-flight',
  '16-contenders',
  '3-processes',
  'transaction',
  'sqlite',
  'sqlite-8-processes',
  'redlock',
  'etcd',
  'etcd-64-in-flight',
  'etcd-16-contenders',
  'etcd-waiters',
  'election',
] as const
export type GroupName = (typeof GROUPS)[number]

export interface Profile {
  /** Of each group; odd, so that the median is a run. */
  readonly runs: number
  /** Of one run, by group. Milliseconds. */
  readonly runMs: Readonly<Record<GroupName, number>>
  /** How long contenders come anew in one slice. Milliseconds. */
  readonly contendMs: number
  /** Whether other libraries take part in `3-processes` too. */
  readonly crowdPeers: boolean
  readonly quorum: Omit<QuorumProfile, 'runMs'>
}

const SECONDS = 1_000

export const PROFILES: Readonly<Record<'full' | 'quick', Profile>> = {
  full: {
    runs: 7,
    runMs: {
      'one-in-flight': 10 * SECONDS,
      '64-in-flight': 8 * SECONDS,
      '16-contenders': 20 * SECONDS,
      '3-processes': 16 * SECONDS,
      transaction: 8 * SECONDS,
      sqlite: 8 * SECONDS,
      'sqlite-8-processes': 16 * SECONDS,
      redlock: 9 * SECONDS,
      etcd: 8 * SECONDS,
      'etcd-64-in-flight': 8 * SECONDS,
      'etcd-16-contenders': 12 * SECONDS,
      'etcd-waiters': 12 * SECONDS,
      election: 8 * SECONDS,
    },
    contendMs: SECONDS,
    crowdPeers: true,
    quorum: {
      runs: 7,
      warmUpPairs: 1_000,
      refusedTries: 200,
      answerMsMax: 1_000,
      unansweredMax: 3,
    },
  },
  quick: {
    runs: 5,
    runMs: {
      'one-in-flight': SECONDS,
      '64-in-flight': 0.5 * SECONDS,
      '16-contenders': SECONDS,
      '3-processes': SECONDS,
      transaction: SECONDS,
      sqlite: SECONDS,
      'sqlite-8-processes': 1.5 * SECONDS,
      redlock: 1.5 * SECONDS,
      etcd: SECONDS,
      'etcd-64-in-flight': SECONDS,
      'etcd-16-contenders': 1.5 * SECONDS,
      'etcd-waiters': SECONDS,
      election: SECONDS,
    },
    contendMs: 150,
    crowdPeers: false,
    // One run, and whoever hangs once has hung: enough to see that everybody is measured.
    quorum: { runs: 1, warmUpPairs: 100, refusedTries: 5, answerMsMax: 500, unansweredMax: 1 },
  },
}

export interface Ready {
  readonly entries: readonly Entry[]
  /** Who takes part, but could not begin. */
  readonly failures: readonly Failure[]
  /** Ends what the entries themselves do not: the servers, the processes. */
  close(): Promise<void>
}

/** Starts the servers of a group and connects everybody who takes part. */
export async function prepare(
  group: Exclude<GroupName, 'redlock'>,
  profile: Profile,
  withPeers: boolean,
): Promise<Ready> {
  if (group === 'transaction') {
    const { entries, close } = await openTransactionBed()
    return { entries, failures: [], close }
  }
  if (group === 'sqlite' || group === 'sqlite-8-processes') {
    return openFileBed(group, profile.contendMs, withPeers)
  }
  if (isEtcdGroup(group)) return openEtcdBed(group, profile.contendMs)
  const bed = await openRedisBed()
  const processes = group === '3-processes' ? new ContenderProcesses(CROWDS) : null
  const close = async (): Promise<void> => {
    processes?.end()
    await bed.close()
  }
  const entries: Entry[] = []
  const failures: Failure[] = []
  const peers = withPeers && (group !== '3-processes' || profile.crowdPeers)
  for (const contestant of contestantsOf(group, peers)) {
    try {
      entries.push(await entryOf(group, contestant, bed, profile.contendMs, processes))
    } catch (error) {
      failures.push(failureOf(contestant, error))
    }
  }
  return { entries, failures, close }
}

function entryOf(
  group: GroupName,
  contestant: Contestant,
  bed: RedisBed,
  contendMs: number,
  processes: ContenderProcesses | null,
): Promise<Entry> {
  if (processes !== null) return processes.entry(contestant, contendMs, bed)
  if (group === '16-contenders') return contendersEntry(contestant, contendMs, bed)
  return pairsEntry(contestant, group === 'one-in-flight' ? 1 : 64, bed)
}

function contestantsOf(group: GroupName, withPeers: boolean): Contestant[] {
  return clientsOf(group).flatMap((client) => {
    const own = [handWritten(client, true), holdfast(client)]
    // Without a token it is what most people write; with contenders it would only be the same again.
    if (group.endsWith('-in-flight')) own.push(handWritten(client, false))
    return withPeers ? [...own, ...peersOn(client)] : own
  })
}

/** With contenders, how much a client costs is not what is asked. */
function clientsOf(group: GroupName): readonly ClientName[] {
  if (group === '3-processes') return ['ioredis']
  return group === '16-contenders' ? ['ioredis', 'node-redis'] : CLIENTS
}

export function extentOf(group: GroupName, { runs, runMs }: Profile): Extent {
  return { runs, runMs: runMs[group] }
}
