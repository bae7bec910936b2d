/**
 * Three members of etcd whose words to each other go through proxies, one before each member, so that one
 * of them can be cut off from the others while it goes on serving clients.
 *
 * Messages of a member also travel on connections that it made itself, to the proxies of the others. Whose a
 * connection is stands in its first request: etcd 3.4 names there the address at which it is called
 * (`X-PeerURLs`, rafthttp/http.go).
 */
import type { FaultProxy } from 'holdfast/testkit'
import type { EtcdServer } from '../../servers/index.ts'
import type { Trial } from '../../trial.ts'

type Connection = Parameters<FaultProxy['onBytes']>[2]

const CALLER = /^X-PeerURLs: http:\/\/127\.0\.0\.1:(\d+)\r$/im

export class EtcdNetwork {
  readonly members: readonly EtcdServer[]
  readonly #proxies: ReadonlyMap<number, FaultProxy>
  readonly #callers: Map<Connection, number>
  readonly #stop: () => Promise<void>
  readonly leader: () => Promise<EtcdServer>
  /** The port at which the others call who is cut off; 0: nobody is. */
  #isolated = 0

  private constructor(
    cluster: Awaited<ReturnType<Trial['startEtcdCluster']>>,
    proxies: ReadonlyMap<number, FaultProxy>,
  ) {
    this.members = cluster.members
    this.leader = cluster.leader
    this.#stop = cluster.stop
    this.#proxies = proxies
    this.#callers = new Map()
  }

  static async start(trial: Trial): Promise<EtcdNetwork> {
    const proxies = new Map<number, FaultProxy>()
    const early: [Connection, Uint8Array][] = []
    let hear: (connection: Connection, bytes: Uint8Array) => void = (...heard) => early.push(heard)
    const cluster = await trial.startEtcdCluster({
      calledAt: async (peerPort) => {
        const proxy = await trial.startProxy(peerPort)
        proxy.onBytes = (direction, bytes, connection) => {
          if (direction === 'toServer') hear(connection, bytes)
        }
        proxies.set(peerPort, proxy)
        return proxy.port
      },
    })
    const network = new EtcdNetwork(cluster, proxies)
    hear = (connection, bytes) => network.#hear(connection, bytes)
    for (const heard of early) network.#hear(...heard)
    return network
  }

  /** Nothing passes between it and the others, on connections that are there and on new ones. */
  isolate({ peerPort }: EtcdServer): void {
    const proxy = this.#proxyOf(peerPort)
    this.#isolated = proxy.port
    for (const direction of ['toServer', 'toClient'] as const) proxy.drop(direction)
    for (const [connection, caller] of this.#callers) {
      if (caller === this.#isolated) dropBoth(connection)
    }
  }

  /** What was lost stays lost, so all connections are broken: the members make new ones. */
  mend(): void {
    this.#isolated = 0
    for (const proxy of this.#proxies.values()) {
      proxy.heal()
      proxy.reset()
    }
    this.#callers.clear()
  }

  async stop(): Promise<void> {
    await this.#stop()
    await Promise.all([...this.#proxies.values()].map((proxy) => proxy.close()))
  }

  #hear(connection: Connection, bytes: Uint8Array): void {
    if (this.#callers.has(connection)) return
    const caller = CALLER.exec(Buffer.from(bytes).toString('latin1'))?.[1]
    if (caller === undefined) return
    this.#callers.set(connection, Number(caller))
    if (Number(caller) === this.#isolated) dropBoth(connection)
  }

  #proxyOf(peerPort: number): FaultProxy {
    const proxy = this.#proxies.get(peerPort)
    if (proxy === undefined) throw new Error(`no member listens at ${peerPort}`)
    return proxy
  }
}

function dropBoth(connection: Connection): void {
  connection.drop('toServer')
  connection.drop('toClient')
}
