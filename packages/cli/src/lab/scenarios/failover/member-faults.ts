/**
 * The arms in which it is not the leader that fails but its store: of three members of etcd the one that
 * leads is killed, or stopped, while the leader of the application works. The others elect another
 * one; the application's leader goes on in its term, or is told and another one leads.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { EtcdCluster, EtcdServer } from '../../servers/index.ts'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import { putInEtcd } from '../ground/etcd-entry.ts'
import type { Ground } from '../ground/ground.ts'
import { until } from '../until.ts'
import { type Book, bookIn, prepareBook, type Row } from './book.ts'
import type { CandidateInput } from './candidates.ts'

export type MemberFault = 'kill' | 'stop'

export interface MemberFaultPlan {
  readonly ttlMs: number
  readonly fault: MemberFault
}

const CANDIDATES = 3
/** When etcd serves again: whatever the fault does to a term it has done by then. */
const AFTER_MS = 1_000
/** When the member is back: whoever lost a term by that is told at the next renewal, a third of the TTL later. */
const REST_TTLS = 1 / 2

export function memberFaultsOf(
  ground: Ground,
  plan: MemberFaultPlan,
): (trial: Trial) => Promise<readonly Row[]> {
  return async (trial) => {
    const data = await ground.openData(trial.addresses, 'lab')
    trial.onEnd(() => data.close())
    await prepareBook(data)
    const book = bookIn(data, false)
    const cluster = await trial.startEtcdCluster()
    const reach = { kind: 'etcd', endpoints: cluster.endpoints } as const
    const { addresses, place: electionName } = trial
    const input: CandidateInput = {
      ...{ addresses, reach, electionName, ttlMs: plan.ttlMs, isBare: false },
    }
    const names = Array.from({ length: CANDIDATES }, (_, index) => `candidate ${index + 1}`)
    const workers = await Promise.all(names.map((name) => trial.startWorker(name)))
    const work = workers.map((worker) => worker.run('work', 0, input))
    // An error of one of them ends the arm, also while it waits for something else.
    const failing = Promise.all(work)
    const rounds = playRounds(trial, plan, cluster, book)
    await Promise.race([rounds, failing])
    await rounds
    for (const worker of workers) worker.mark('end')
    await failing
    return book.rows(electionName)
  }
}

async function playRounds(
  trial: Trial,
  plan: MemberFaultPlan,
  cluster: EtcdCluster,
  book: Book,
): Promise<void> {
  const countRows = async (): Promise<number> => (await book.rows(trial.place)).length
  const untilWritten = async (): Promise<void> => {
    const seen = await countRows()
    // The second is written when the first has been answered.
    await until('somebody writes', async () => (await countRows()) >= seen + 2)
  }
  for (let round = 0; round < trial.rounds; round++) {
    await sleep((plan.ttlMs / 3) * trial.draw(`fault ${round}`))
    await untilWritten()
    await oneRound(trial, plan, cluster, round)
    await untilWritten()
    trial.note(round, 'round', monotonicUs(), { answer: 'over' })
    trial.progress(round + 1)
  }
}

async function oneRound(
  trial: Trial,
  { ttlMs, fault }: MemberFaultPlan,
  cluster: EtcdCluster,
  round: number,
): Promise<void> {
  const leader = await cluster.leader()
  const others = cluster.members.filter((member) => member !== leader)
  await trial.call(round, fault, async () => {
    if (fault === 'kill') await leader.kill()
    else leader.freeze()
    return { answer: 'done', detail: leader.name }
  })
  const calledAtUs = monotonicUs()
  await until('another member leads', async () => (await leads(others)) !== null)
  const next = (await leads(others)) ?? leader
  trial.note(round, 'led', calledAtUs, { answer: 'other', detail: next.name })
  await untilStored(trial, round, others)
  await sleep(ttlMs + AFTER_MS)
  await trial.call(round, 'back', async () => {
    if (fault === 'kill') await leader.restart()
    else leader.thaw()
    return { answer: 'done', detail: leader.name }
  })
  // One that was stopped believes that it leads until it has heard of the others.
  await until('it follows', () =>
    leader.isLeader().then(
      (isLeader) => !isLeader,
      () => false,
    ),
  )
  await sleep(REST_TTLS * ttlMs)
}

async function leads(members: readonly EtcdServer[]): Promise<EtcdServer | null> {
  const answers = await Promise.all(members.map((one) => one.isLeader().catch(() => false)))
  return members.find((_, index) => answers[index]) ?? null
}

/** When etcd takes a write again, by one of the lab's own. */
async function untilStored(
  trial: Trial,
  round: number,
  others: readonly EtcdServer[],
): Promise<void> {
  const key = `lab:${trial.place}`
  let calledAtUs = monotonicUs()
  await until('etcd takes a write', async () => {
    calledAtUs = monotonicUs()
    const answers = others.map(({ port }) => putInEtcd(port, key, `${round}`).catch(() => false))
    return (await Promise.all(answers)).includes(true)
  })
  trial.note(round, 'stored', calledAtUs, { answer: 'done' })
}
