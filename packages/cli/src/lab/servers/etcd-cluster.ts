/** A private cluster of three members of etcd on 127.0.0.1. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type EtcdOptions, type EtcdServer, findPlace, type Place, PrivateEtcd } from './etcd.ts'
import { findFreePort } from './ports.ts'
import { ServerStartError } from './server-process.ts'

export interface EtcdClusterOptions extends EtcdOptions {
  /**
   * Gets the port at which a member listens for the others, before it is started, and gives the one at
   * which they are to call it: that of a proxy. By default they call where it listens.
   */
  readonly calledAt?: (peerPort: number) => Promise<number>
}

export interface EtcdCluster {
  readonly members: readonly EtcdServer[]
  readonly endpoints: readonly string[]
  /** The member that is the leader by its own word; of two, the first that answers. Waits for one. */
  leader(): Promise<EtcdServer>
  /** Ends all members and removes their folders. Calling twice is safe. */
  stop(): Promise<void>
}

const MEMBERS = 3
const PORT_TRIES = 10
const LEADER_MS_MAX = 60_000
const LEADER_POLL_MS = 50

/** @throws {MissingServerError} before anything is started. */
export async function startEtcdMembers(options: EtcdClusterOptions = {}): Promise<EtcdCluster> {
  const { calledAt } = options
  for (let tryNumber = 1; ; tryNumber++) {
    const places: Place[] = []
    for (let index = 0; index < MEMBERS; index++) {
      const place = await findPlace(findFreePort)
      const called = calledAt && { calledPort: await calledAt(place.peerPort) }
      places.push({ ...place, ...called })
    }
    const members = places.map((place) => new PrivateEtcd(place, places, options))
    const stop = async (): Promise<void> => {
      await Promise.all(members.map((member) => member.stop()))
    }
    try {
      for (const member of members) member.launch()
      await Promise.all(members.map((member) => member.waitUntilReady()))
      const endpoints = members.map(({ endpoint }) => endpoint)
      return { members, endpoints, leader: () => leaderOf(members), stop }
    } catch (error) {
      await stop()
      const isPortTaken = error instanceof ServerStartError && error.isPortTaken
      if (!isPortTaken || tryNumber === PORT_TRIES) throw error
    }
  }
}

async function leaderOf(members: readonly EtcdServer[]): Promise<EtcdServer> {
  const giveUpAtMs = performance.now() + LEADER_MS_MAX
  while (performance.now() < giveUpAtMs) {
    for (const member of members) if (await member.isLeader().catch(() => false)) return member
    await sleep(LEADER_POLL_MS)
  }
  throw new Error(`no member of etcd is the leader after ${LEADER_MS_MAX} ms`)
}
