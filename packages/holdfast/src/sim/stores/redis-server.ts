/** A model of a Redis node in a process of its own, and clients of it in others. */
import { ConnectionLostError, Link } from '../link.ts'
import { type Carry, NodeClient, type Tell } from '../node/client.ts'
import { RedisNode, type ScriptCall } from '../node/node.ts'
import { MODELLED_SCRIPTS } from '../node/scripts/index.ts'
import type { Process } from '../process.ts'
import { TTL_MS } from '../scenarios.ts'
import { NodeWatch, ownerOf } from './node-watch.ts'
import type { Ground } from './store.ts'

const RATE_MIN = 0.8
const RATE_MAX = 1.25
const DOWN_MS_MAX = 1.5 * TTL_MS
/** How late a client learns at most that its connection ended, or can be had again. */
const NOTICED_MS_MAX = 60
const CLOSED = 'Connection is closed.'

/** Their names by the names under which Redis caches them. */
const NAMES: ReadonlyMap<string, string> = new Map(
  MODELLED_SCRIPTS.map(({ name, sha1 }) => [sha1, name]),
)

export class RedisServer {
  readonly process: Process
  readonly node: RedisNode
  readonly watch: NodeWatch
  readonly #ground: Ground

  /** @param ways See NodeWatch. */
  constructor(ground: Ground, name: string, ways = 1) {
    this.#ground = ground
    this.process = ground.process(name)
    this.node = new RedisNode(this.process.seams)
    // One round trip less, of which an answer could be lost with the connection of another request.
    if (ground.scenario.isLossless) this.node.loadScripts()
    this.watch = new NodeWatch(name, this.node, ground, ways)
  }

  /** What a client of a user's would be: two connections behind it, and push on a third. */
  client(process: Process): Readonly<{ client: NodeClient; link: Link }> {
    const { random, scenario } = this.#ground
    const link = new Link(process, this.process, random, scenario.weather)
    const carry: Carry = (deliver, call) => {
      let isRepeated = false
      const execute = async (): Promise<ReturnType<typeof deliver>> => {
        const reply = deliver()
        if (call !== null) this.watch.executed(call, isRepeated)
        isRepeated = true
        return reply
      }
      const what = process.isTraced ? textOf(call) : ''
      return link.call(what, call !== null, execute).catch((error: unknown) => {
        throw error instanceof ConnectionLostError ? new Error(CLOSED) : error
      })
    }
    return { client: new NodeClient(this.node, carry, this.#tell(process, link)), link }
  }

  #tell(process: Process, link: Link): Tell {
    const { random } = this.#ground
    let lastAtMs = 0
    return (what, run) => {
      if (what === 'message') return link.push('a release', run)
      const soonMs = process.scheduler.nowMs + random.between(0, NOTICED_MS_MAX)
      lastAtMs = Math.max(soonMs, lastAtMs)
      process.deliver(lastAtMs, () => {
        process.note(() => `learns: ${this.process.name} ${what}`)
        run()
      })
    }
  }

  pause(): void {
    this.process.pause(this.#ground.random.between(0, TTL_MS))
  }

  step(): void {
    const { random, scenario } = this.#ground
    const byMs = random.between(...scenario.storeStepMs)
    this.process.note(() => `clock steps by ${byMs.toFixed(0)} ms`)
    this.node.clock.step(byMs * 1000)
  }

  changeRate(): void {
    const rate = this.#ground.random.between(RATE_MIN, RATE_MAX)
    this.process.note(() => `clock runs at ${rate.toFixed(3)}`)
    this.node.clock.setRate(rate)
  }

  stop(keepsData: boolean): void {
    if (!this.node.isUp) return
    const forMs = this.#ground.random.between(0, DOWN_MS_MAX)
    this.process.note(
      () => `stops for ${forMs.toFixed(0)} ms, ${keepsData ? 'with' : 'without'} its data`,
    )
    this.node.stop()
    const { scheduler } = this.process
    scheduler.at(scheduler.nowMs + forMs, () => {
      this.process.note(() => 'starts')
      this.node.start(keepsData)
      if (!keepsData) this.watch.onLoss()
    })
  }

  loseData(): void {
    if (!this.#ground.random.chance(0.5) || !this.node.isUp) return this.stop(false)
    this.process.note(() => 'loses its data')
    this.node.loseData()
    this.watch.onLoss()
  }
}

function textOf(call: ScriptCall | null): string {
  if (call === null) return 'a subscription'
  const { kind, script, keys } = call
  const name = NAMES.get(script) ?? MODELLED_SCRIPTS.find(({ lua }) => lua === script)?.name
  const owner = ownerOf(call)
  return `${name} ${keys[0]}${owner ? ` as ${owner}` : ''}${kind === 'eval' ? ', with its text' : ''}`
}
