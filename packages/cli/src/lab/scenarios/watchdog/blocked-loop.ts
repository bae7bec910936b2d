/**
 * The arm in which the holder blocks its own event loop for longer than its TTL. It cannot be told
 * meanwhile: it is told after, its first look at the lease throws, and the guard refuses its write.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { pauseKind } from '../../faults/index.ts'
import type { Addresses } from '../../scenario.ts'
import type { EtcdServer } from '../../servers/index.ts'
import { monotonicUs } from '../../time.ts'
import type { Job, Program, Trial, TrialWorker } from '../../trial.ts'
import { type Dialect, NUMBERED } from '../ground/database.ts'
import { openEtcdLocks } from '../ground/etcd-locks.ts'
import type { Ground, WalletStores } from '../ground/ground.ts'
import { answerOf } from '../wallet/updates.ts'
import { noteGranted } from './etcd-stand.ts'
import { BLOCK_MS, BLOCKED_TTL_MS, ETCD_BLOCK_MS } from './times.ts'

const PAIRS_AT_ONCE = 4
/** The next one is granted the lock when the TTL is over. */
const WAIT_MS = 30_000
/** A signal that has not fired by then does not fire. */
const TOLD_MS_MAX = 10_000

const tableOf = (dialect: Dialect): string => `CREATE TABLE watchdog_writes (
  id ${NUMBERED[dialect]}, name text NOT NULL, writer text NOT NULL)`

export interface BlockedInput {
  readonly addresses: Addresses
  readonly name: string
  /** Of the etcd that keeps the locks; null: the ground does. */
  readonly endpoint: string | null
  readonly blockMs: number
}

/** Who wrote under each lock, in order, by the store's own word. */
export interface Writes {
  readonly byRound: readonly (readonly string[])[]
}

/** The programs of the two workers of a pair. */
export const blockedPrograms = (ground: Ground): Readonly<Record<string, Program>> => ({
  blockAndWrite: (job) => blockAndWrite(job, ground),
  takeOver: (job) => takeOver(job, ground),
})

/** @param etcd What keeps the locks; without it the ground does. */
export async function blockHolders(
  trial: Trial,
  ground: Ground,
  etcd: EtcdServer | null = null,
): Promise<Writes> {
  const { db, guard, close } = await ground.openData(trial.addresses, 'lab')
  trial.onEnd(close)
  await guard.migrate()
  await db.createOnce('watchdog_writes', tableOf(db.dialect))
  const nameOf = (round: number): string => `${trial.place}:${round}`
  let next = 0
  let done = 0
  const workSome = async (): Promise<void> => {
    const pair = await startPair(trial)
    for (let round = next++; round < trial.rounds; round = next++) {
      await oneRound(trial, pair, round, nameOf(round), etcd)
      trial.progress(++done)
    }
  }
  const pairs = Math.min(PAIRS_AT_ONCE, trial.rounds)
  await Promise.all(Array.from({ length: pairs }, () => workSome()))
  const byRound: string[][] = []
  for (let round = 0; round < trial.rounds; round++) {
    const { rows } = await db.query<{ writer: string }>(
      'SELECT writer FROM watchdog_writes WHERE name = $1 ORDER BY id',
      [nameOf(round)],
    )
    byRound.push(rows.map(({ writer }) => writer))
  }
  return { byRound }
}

type Pair = readonly [holder: TrialWorker, next: TrialWorker]

function startPair(trial: Trial): Promise<Pair> {
  return Promise.all([trial.startWorker('blocked'), trial.startWorker('next')])
}

async function oneRound(
  trial: Trial,
  [holder, next]: Pair,
  round: number,
  name: string,
  etcd: EtcdServer | null,
): Promise<void> {
  const where = { addresses: trial.addresses, endpoint: etcd?.endpoint ?? null }
  const input: BlockedInput = { ...where, name, blockMs: etcd === null ? BLOCK_MS : ETCD_BLOCK_MS }
  const taking = next.run('takeOver', round, input)
  await next.until('ready')
  const blocking = holder.run('blockAndWrite', round, input)
  await holder.until('blocking')
  if (etcd !== null) await noteGranted(trial, etcd.port, [{ name, round }])
  next.mark('ask')
  await taking
  holder.mark('taken')
  await blocking
}

async function openStores(
  { addresses, endpoint }: BlockedInput,
  ground: Ground,
  role: string,
): Promise<WalletStores> {
  if (endpoint === null) return ground.openWallets(addresses, role)
  const data = await ground.openData(addresses, role)
  const locks = openEtcdLocks([endpoint])
  const close = async (): Promise<void> => {
    await locks.close()
    await data.close()
  }
  return { ...data, locks, close }
}

async function blockAndWrite(job: Job, ground: Ground): Promise<void> {
  const input = job.input as BlockedInput
  const { name, blockMs } = input
  const stores = await openStores(input, ground, job.role)
  const calledAtUs = monotonicUs()
  const lease = await stores.locks.acquire(name, { ttlMs: BLOCKED_TTL_MS })
  const { owner, fencingToken, lockName, source, signal } = lease
  const token = `${fencingToken}`
  job.note('acquire', calledAtUs, { answer: 'granted', owner, token })
  const told = new Promise<void>((resolve) => {
    const hear = (): void => {
      job.note('told', monotonicUs(), { answer: String(signal.reason) })
      resolve()
    }
    signal.addEventListener('abort', hear, { once: true })
  })
  const bare = { owner, fencingToken, lockName, source }
  await write(job, stores, bare, 'early')
  await job.mark('blocking')
  const blockedAtUs = monotonicUs()
  void pauseKind('block').pause(blockMs, Promise.resolve())
  const wokeAtUs = monotonicUs()
  const verdict = answerTo(() => lease.assertValid())
  job.note('block', blockedAtUs, { answer: 'over', value: (wokeAtUs - blockedAtUs) / 1_000 })
  job.note('assert', wokeAtUs, { answer: verdict })
  await Promise.race([told, sleep(TOLD_MS_MAX, undefined, { ref: false })])
  await job.until('taken')
  await write(job, stores, bare, 'late')
  await stores.close()
}

/** Waits for the lock, writes under its larger token, and gives it back. */
async function takeOver(job: Job, ground: Ground): Promise<void> {
  const input = job.input as BlockedInput
  const { name } = input
  const stores = await openStores(input, ground, job.role)
  await job.mark('ready')
  await job.until('ask')
  const calledAtUs = monotonicUs()
  const lease = await stores.locks.acquire(name, { ttlMs: 30_000, waitMs: WAIT_MS })
  job.note('acquire', calledAtUs, {
    ...{ answer: 'granted', owner: lease.owner, token: `${lease.fencingToken}` },
  })
  await write(job, stores, lease, 'next')
  await lease.release()
  await stores.close()
}

async function write(
  job: Job,
  { guard }: WalletStores,
  fenced: Parameters<WalletStores['guard']['transaction']>[0],
  writer: string,
): Promise<void> {
  await job.call('write', async () => {
    const answer = await answerOf(() =>
      guard.transaction(fenced, async (tx) => {
        const values = [fenced.lockName, writer]
        await tx.query('INSERT INTO watchdog_writes (name, writer) VALUES ($1, $2)', values)
      }),
    )
    return { answer, detail: writer, token: `${fenced.fencingToken}` }
  })
}

/** The code of what it throws, or `valid`. */
function answerTo(act: () => void): string {
  try {
    act()
    return 'valid'
  } catch (error) {
    return String((error as { code?: unknown }).code ?? error)
  }
}
