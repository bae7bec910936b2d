/**
 * Those who hold locks by a majority of three nodes, with Holdfast or by hand: A before the nodes lose
 * something, and B, who asks for the same ones afterwards.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { LockError } from 'holdfast'
import type { Addresses } from '../../scenario.ts'
import { monotonicUs } from '../../time.ts'
import type { Job, Program } from '../../trial.ts'
import { newOwner, QuorumByHand } from '../data-loss/by-hand.ts'
import { giveBack, warmUp } from '../quorum/ask-once.ts'
import { openLocks } from '../quorum/locks.ts'
import { type Held, HeldWriter } from '../wallet/write-held.ts'
import type { ClientName } from '../watchdog/clients.ts'
import type { HeldLock } from '../watchdog/holder.ts'

/** Of A's locks, and what the prefix allows: so long is a node that lost its data kept from voting. */
export const TTL_MS = 4_000
/** Grants before those that are held when the data are lost: a counter has come so far that it can fall. */
const EARLIER_GRANTS = 2
/** While A holds them; the answer to the first question is what counts. */
const TRY_MS = 300
/** For what must be granted, on a machine with every core taken. */
const WAIT_MS = 45_000
const AGAIN_MS = 50

export interface QuorumInput {
  readonly ports: readonly number[]
  readonly client: ClientName
  readonly postgres: Addresses['postgres']
  readonly isOurs: boolean
  readonly locks: readonly HeldLock[]
  /** Whether B asks once more in the end, when another node is gone. */
  readonly asksAgain: boolean
}

interface Grant extends Held {
  release(): Promise<unknown>
}

type Taken = Grant & { readonly round: number }

interface Taker {
  /** Null: refused within that wait. */
  take(lockName: string, waitMs: number): Promise<Grant | null>
  close(): void
}

/**
 * Takes each of them a few times; the last time, when the lab says so, to keep it and to write. It
 * writes once more when B has written.
 */
export const keep: Program = async (job): Promise<void> => {
  const input = job.input as QuorumInput
  const { locks } = input
  if (input.isOurs) await makePrefix(input)
  const taker = await openTaker(input)
  const writer = new HeldWriter(input.postgres, job.role)
  for (let time = 0; time < EARLIER_GRANTS; time++) {
    const taken = await Promise.all(locks.map((lock) => granted(job, taker, 'acquire', lock)))
    await Promise.all(taken.map((one) => one.release()))
  }
  await job.mark('ready')
  await job.until('take')
  const held = await Promise.all(locks.map((lock) => granted(job, taker, 'acquire', lock)))
  await writeAll(job, writer, held, 1)
  await job.mark('written')
  await job.until('late')
  await writeAll(job, writer, held, 3)
  await writer.close()
  taker.close()
}

/** Asks while A holds them, waits for what was refused, and asks once more when B gave them back. */
export const follow: Program = async (job): Promise<void> => {
  const input = job.input as QuorumInput
  const { locks } = input
  const taker = await openTaker(input)
  const writer = new HeldWriter(input.postgres, job.role)
  // The nodes know each other's clients, and connections and scripts are there.
  const greeting = await taker.take(`greet:${process.pid}`, WAIT_MS)
  await greeting?.release()
  await job.mark('ready')
  await job.until('try')
  const tried = await Promise.all(locks.map((lock) => ask(job, taker, 'try', lock, TRY_MS)))
  await job.mark('tried')
  const held = await Promise.all(
    locks.map(async (lock, at) => tried[at] ?? (await granted(job, taker, 'acquire', lock))),
  )
  await writeAll(job, writer, held, 2)
  await job.mark('written')
  if (input.asksAgain) {
    await job.until('again')
    await Promise.all(held.map((one) => one.release()))
    await Promise.all(locks.map((lock) => granted(job, taker, 'again', lock)))
  }
  await writer.close()
  taker.close()
}

/** Each in its round. */
async function writeAll(
  job: Job,
  writer: HeldWriter,
  held: readonly Taken[],
  balance: number,
): Promise<void> {
  await Promise.all(held.map((one) => writer.write(job, { held: one, balance, round: one.round })))
}

/** One question, as long as it may take; the answer is written down. */
async function ask(
  job: Job,
  taker: Taker,
  op: string,
  { name, round }: HeldLock,
  waitMs: number,
): Promise<Taken | null> {
  const calledAtUs = monotonicUs()
  const taken = await taker.take(name, waitMs)
  const outcome =
    taken === null
      ? { answer: 'refused' }
      : { answer: 'granted', owner: taken.owner, token: taken.token }
  job.note(op, calledAtUs, outcome, round)
  return taken === null ? null : { ...taken, round }
}

async function granted(job: Job, taker: Taker, op: string, lock: HeldLock): Promise<Taken> {
  const taken = await ask(job, taker, op, lock, WAIT_MS)
  if (taken === null) throw new Error(`${lock.name} was not granted within ${WAIT_MS} ms`)
  return taken
}

/**
 * Somebody says of nodes that are new that they are, so that they vote at once. Everybody after it
 * waits on empty nodes, which may have lost what they had.
 */
async function makePrefix({ ports, client }: QuorumInput): Promise<void> {
  const opened = await openLocks(client, ports, { onEmpty: 'fresh', maxTtlMs: TTL_MS })
  await warmUp(opened.locks, 'first of all', TTL_MS)
  await opened.locks.close()
  opened.close()
}

async function openTaker({ isOurs, ports, client }: QuorumInput): Promise<Taker> {
  if (!isOurs) return takerByHand(ports)
  const opened = await openLocks(client, ports, { maxTtlMs: TTL_MS })
  const take = async (lockName: string, waitMs: number): Promise<Grant | null> => {
    try {
      const options = { ttlMs: TTL_MS, waitMs, renew: false }
      const lease = await opened.locks.acquire(lockName, options)
      const { owner, source, fencingToken } = lease
      const token = `${fencingToken}`
      return { lockName, owner, source, token, release: () => giveBack(lease) }
    } catch (error) {
      if (error instanceof LockError) return null
      throw error
    }
  }
  return { take, close: opened.close }
}

function takerByHand(ports: readonly number[]): Taker {
  const nodes = new QuorumByHand(ports)
  const take = async (lockName: string, waitMs: number): Promise<Grant | null> => {
    const giveUpAtMs = performance.now() + waitMs
    do {
      const owner = newOwner()
      const token = await nodes.take(lockName, owner, TTL_MS)
      const release = (): Promise<void> => nodes.free(lockName, owner)
      if (token !== null) return { lockName, owner, source: 'by hand', token, release }
      await sleep(AGAIN_MS)
    } while (performance.now() < giveUpAtMs)
    return null
  }
  return { take, close: () => nodes.close() }
}
