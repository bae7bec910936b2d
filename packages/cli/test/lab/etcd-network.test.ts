import { setTimeout as sleep } from 'node:timers/promises'
import { startProxy } from 'holdfast/testkit'
import { afterEach, expect, test } from 'vitest'
import { EtcdNetwork } from '../../src/lab/scenarios/split-brain/etcd-network.ts'
import { wordOfMember } from '../../src/lab/scenarios/split-brain/look.ts'
import { type EtcdServer, startEtcdCluster } from '../../src/lab/servers/index.ts'
import type { Trial } from '../../src/lab/trial.ts'

const started: EtcdNetwork[] = []

afterEach(async () => {
  for (const network of started.splice(0)) await network.stop()
})

async function becomes(member: EtcdServer, wanted: RegExp): Promise<void> {
  let said = ''
  for (const untilMs = performance.now() + 30_000; performance.now() < untilMs; ) {
    said = await wordOfMember(member.port).catch((error: Error) => error.message)
    if (wanted.test(said)) return
    await sleep(50)
  }
  throw new Error(`${member.name} says: ${said}`)
}

// The accident: one direction, or one connection, still gets through, and what looks like a partition is a
// leader that steps down in order.
test('a leader that is cut off serves, alone, while the others elect one; mended, it follows that', async () => {
  const network = await EtcdNetwork.start({ startEtcdCluster, startProxy } as unknown as Trial)
  started.push(network)
  const leader = await network.leader()
  const others = network.members.filter((member) => member !== leader)
  await Promise.all(network.members.map((member) => becomes(member, /^it follows \d+$/)))

  network.isolate(leader)

  await becomes(leader, /^alone$/)
  for (const member of others) await becomes(member, /^it follows \d+$/)
  const elected = await Promise.all(others.map((member) => member.isLeader()))
  expect(elected.filter((isOne) => isOne)).toHaveLength(1)
  for (let looks = 0; looks < 40; looks++) {
    expect(await wordOfMember(leader.port)).toBe('alone')
    await sleep(50)
  }

  network.mend()
  await becomes(leader, /^it follows \d+$/)
  expect(await leader.isLeader()).toBe(false)
})
