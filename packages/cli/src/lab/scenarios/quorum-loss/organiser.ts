/**
 * One arm in which nodes of three lose something: passes of many locks at once, each with nodes of its
 * own. A holds the locks on a bare majority, because one node never heard of them; that is when a node
 * that forgets makes a second majority possible.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { monotonicUs } from '../../time.ts'
import type { Trial, TrialWorker } from '../../trial.ts'
import { lookBy } from '../data-loss/losses.ts'
import { openRedis, withRedis } from '../ground/redis-client.ts'
import { servers } from '../ground/servers.ts'
import { cut, endNodes, type Node, portsOf, startNode } from '../quorum/nodes.ts'
import { openWallet, prepareTables, type WalletState, walletState } from '../wallet/stores.ts'
import { CLIENTS } from '../watchdog/clients.ts'
import type { HeldLock } from '../watchdog/holder.ts'
import { locksOf, untilCounted } from '../watchdog/passes.ts'
import { type QuorumInput, TTL_MS } from './holders.ts'
import type { QuorumLoss, StruckNode } from './losses.ts'

export interface LossPlan {
  readonly loss: QuorumLoss
  /** How many nodes it strikes. */
  readonly strikes: 1 | 3
  readonly isOurs: boolean
  /** A holds on all three nodes, not on two. */
  readonly isHeldOnAll?: true
  /** Nothing is lost, so that no node is kept from voting. */
  readonly keepsData?: true
}

/** What the store says of each round's row, by round. */
export type Rows = readonly WalletState[]

const MARKER_KEY = 'lock:#hf:marker'
const LOOK_EVERY_MS = 20
/** A node votes again after a TTL; on a machine with every core taken it may take far longer. */
const READMITTED_MS_MAX = 45_000

export function quorumLossBy(plan: LossPlan): (trial: Trial) => Promise<Rows> {
  return async (trial) => {
    const data = await servers.openData(trial.addresses, 'lab')
    trial.onEnd(() => data.close())
    await prepareTables(data)
    const rows: WalletState[] = []
    await untilCounted(trial, async (first, count) => {
      const locks = locksOf(trial, first, count, TTL_MS)
      for (const { name } of locks) await openWallet(data, name, 0)
      const isInTime = await new Pass(trial, plan, locks).run()
      for (const { name, round } of locks) rows[round] = await walletState(data, name)
      return isInTime ? count : 0
    })
    return rows
  }
}

class Pass {
  readonly #trial: Trial
  readonly #plan: LossPlan
  readonly #locks: readonly HeldLock[]

  constructor(trial: Trial, plan: LossPlan, locks: readonly HeldLock[]) {
    this.#trial = trial
    this.#plan = plan
    this.#locks = locks
  }

  /** @returns whether B asked while A's locks were to stand yet. */
  async run(): Promise<boolean> {
    const trial = this.#trial
    const { nodes, struck, missing, other } = await this.#startNodes()
    const a = await this.#start('A', 'keep', nodes)
    const b = await this.#start('B', 'follow', nodes)
    for (const one of struck) await one.keep()
    if (!this.#plan.isHeldOnAll) cut(missing, 'A')
    const askedAtMs = performance.now()
    a.worker.mark('take')
    await reached(a, 'written')
    await this.#lose(struck)
    const admission = this.#seeAdmission(struck)
    // It is waited for later; a failure meanwhile must not end this process.
    admission.catch(() => {})
    b.worker.mark('try')
    await reached(b, 'tried')
    const isInTime = performance.now() - askedAtMs < TTL_MS
    await reached(b, 'written')
    a.worker.mark('late')
    await a.work
    await admission
    if (this.#asksAgain) {
      await other.server.kill()
      b.worker.mark('again')
    }
    await b.work
    await Promise.all([a.worker.kill(), b.worker.kill()])
    for (const one of struck) await one.end()
    await endNodes(nodes)
    trial.progress(this.#locks.length)
    return isInTime
  }

  /** Of what was lost a node must vote again, which is seen when another one is gone. */
  get #asksAgain(): boolean {
    return this.#plan.isOurs && !this.#plan.keepsData
  }

  async #startNodes(): Promise<{
    nodes: Node[]
    struck: StruckNode[]
    missing: Node
    other: Node
  }> {
    const { loss, strikes } = this.#plan
    const trial = this.#trial
    const struck = await Promise.all(Array.from({ length: strikes }, () => loss(trial)))
    const whole = await Promise.all(Array.from({ length: 3 - strikes }, () => startNode(trial)))
    const all = [...struck.map(({ node }) => node), ...whole]
    const [, other, missing] = all
    if (other === undefined || missing === undefined) throw new Error('three nodes were to start')
    // Which of the names is struck is drawn.
    const turn = Math.floor(trial.draw(`turn ${this.#locks[0]?.round}`) * all.length)
    return { nodes: [...all.slice(turn), ...all.slice(0, turn)], struck, missing, other }
  }

  async #start(role: 'A' | 'B', program: string, nodes: readonly Node[]): Promise<Started> {
    const { isOurs } = this.#plan
    const worker = await this.#trial.startWorker(role)
    // The two client libraries, one on each side, in an order that the seed decides.
    const turn = this.#trial.draw(`client ${this.#locks[0]?.round}`) < 0.5 ? 0 : 1
    const client = CLIENTS[role === 'A' ? turn : 1 - turn] ?? 'ioredis'
    const { postgres } = this.#trial.addresses
    const input: QuorumInput = {
      ...{ ports: portsOf(nodes, role), client, postgres, isOurs },
      ...{ locks: this.#locks, asksAgain: this.#asksAgain },
    }
    const work = worker.run(program, 0, input)
    // It may fail while the lab waits for something else; whoever waits for it is told.
    work.catch(() => {})
    const started = { worker, work }
    await reached(started, 'ready')
    return started
  }

  async #lose(struck: readonly StruckNode[]): Promise<void> {
    const calledAtUs = monotonicUs()
    const [answer = ''] = await Promise.all(struck.map((one) => one.lose()))
    for (const { round } of this.#locks) this.#trial.note(round, 'lose', calledAtUs, { answer })
    for (const one of struck) {
      await withRedis(one.port(), async (redis) => {
        for (const { name, round } of this.#locks) {
          await this.#trial.call(round, 'look', () => lookBy(redis, name))
        }
      })
    }
  }

  /** By the lab's own look at the markers: kept from voting, and voting again. */
  async #seeAdmission(struck: readonly StruckNode[]): Promise<void> {
    if (!this.#asksAgain) return
    await Promise.all(struck.map((one) => this.#seeOne(one.port())))
  }

  async #seeOne(port: number): Promise<void> {
    const redis = await openRedis({ redis: { host: '127.0.0.1', port } })
    this.#trial.onEnd(async () => redis.disconnect())
    const giveUpAtMs = performance.now() + READMITTED_MS_MAX
    let previous = ''
    for (;;) {
      const calledAtUs = monotonicUs()
      const state = await stateOf(redis)
      if (state !== previous) {
        for (const { round } of this.#locks) {
          this.#trial.note(round, 'node', calledAtUs, { answer: state, detail: `port ${port}` })
        }
      }
      if (state === 'voting' || performance.now() > giveUpAtMs) break
      previous = state
      await sleep(LOOK_EVERY_MS)
    }
    redis.disconnect()
  }
}

const STATES: Readonly<Record<string, string>> = { w: 'waiting', v: 'voting', c: 'closed' }
/** `hfm1:` and one letter; see docs/wire.md. Of this process: what another one wrote is no vote. */
const STATE_AT = 5

async function stateOf(redis: Redis): Promise<string> {
  const marker = await redis.get(MARKER_KEY)
  if (marker === null) return 'empty'
  const runId = /run_id:([0-9a-f]{40})/.exec(await redis.info('server'))?.[1] ?? 'none'
  return marker.includes(runId) ? (STATES[marker[STATE_AT] ?? ''] ?? 'unknown') : 'restarted'
}

interface Started {
  readonly worker: TrialWorker
  readonly work: Promise<unknown>
}

/** A failure of its work ends the wait; so does its end, for what it reached before that. */
async function reached({ worker, work }: Started, mark: string): Promise<void> {
  await Promise.race([worker.until(mark), work])
}
