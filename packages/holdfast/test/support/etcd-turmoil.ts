/** A cluster of etcd of which one member is away: the one that led, killed or stopped in turn. */

import { randomOwner } from '../../src/core/owner.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'
import { acquired } from '../../src/testkit/backend-harness.ts'
import { type EtcdCluster, type EtcdServer, startEtcdCluster } from './etcd.ts'
import { until } from './redis.ts'

export class EtcdTurmoil {
  readonly #cluster: EtcdCluster
  #away: EtcdServer | null = null
  #isFrozen = false
  /** How many leaders were taken away so far. */
  count = 0

  static async start(): Promise<EtcdTurmoil> {
    return new EtcdTurmoil(await startEtcdCluster())
  }

  private constructor(cluster: EtcdCluster) {
    this.#cluster = cluster
  }

  get endpoints(): readonly string[] {
    return this.#cluster.endpoints
  }

  /** Brings back the one that is away, and takes away the leader. */
  async next(): Promise<void> {
    await this.#bringBack()
    const leader = await this.#cluster.leader()
    this.count += 1
    this.#away = leader
    this.#isFrozen = this.count % 2 === 0
    if (this.#isFrozen) leader.freeze()
    else await leader.kill()
  }

  /** An election goes on: what is asked meanwhile fails, as it may. */
  async untilServed({ ours, theirs }: OpenBackends): Promise<void> {
    for (const side of [ours, theirs]) {
      await until(async () => {
        try {
          const grant = await acquired(side, `turmoil:${randomOwner()}`)
          await side.release(grant, 0)
          return true
        } catch {
          return false
        }
      }, 'the others serve')
    }
  }

  stop(): Promise<void> {
    return this.#cluster.stop()
  }

  async #bringBack(): Promise<void> {
    const away = this.#away
    this.#away = null
    if (away === null) return
    if (this.#isFrozen) away.thaw()
    else await away.restart()
  }
}
