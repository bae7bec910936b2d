import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import type { Backend } from '../../src/core/backend.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { type ClientName, until } from '../support/redis.ts'
import { standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
const TTL_MS = 20_000
const CHANNEL = 'lock:k'
const WANT = 'lock:#hf:want:k'

/** A contender that was refused, and whoever holds the name. */
async function contend(name: ClientName) {
  const theirs = (await stand.open()).backend
  const ours = (await stand.open({ name, listens: true })).backend
  const grant = await acquired(theirs, 'k', { ttlMs: TTL_MS })
  expect(
    (await ours.tryAcquire(request('k', { ttlMs: TTL_MS, waits: true, waiter: 'me' }))).kind,
  ).toBe('held')
  return { ours, theirs, grant }
}

/** Sleeps until it is woken; nobody polls here. */
function fallAsleep(backend: Backend) {
  const controller = new AbortController()
  stand.ends.push(() => controller.abort())
  const { wakeUp } = backend
  if (!wakeUp) throw new Error('this backend polls')
  const seen = { isAwake: false }
  void wakeUp.call(backend, 'k', controller.signal).then(() => {
    seen.isAwake = true
  })
  return seen
}

async function listeners(redis: Redis): Promise<number> {
  const [, count] = (await redis.pubsub('NUMSUB', CHANNEL)) as [string, number]
  return Number(count)
}

const everyNode = async (holds: (redis: Redis) => Promise<boolean>): Promise<boolean> =>
  (await Promise.all(stand.inspectors.map(holds))).every((one) => one)

describe.each<ClientName>(['ioredis 6', 'node-redis 6'])('%s', (name) => {
  // The accident: with all nodes to be waited for, one that is away lets everybody sleep on.
  it.each([0, 1, 2])('is woken by node %i alone', async (place) => {
    const { ours } = await contend(name)
    const seen = fallAsleep(ours)
    await until(() => everyNode(async (redis) => (await listeners(redis)) === 1), 'it listens')
    await until(() => everyNode(async (redis) => (await redis.exists(WANT)) === 1), 'it has asked')
    await sleep(100)
    expect(seen.isAwake).toBe(false)
    await stand.inspectors[place]?.publish(CHANNEL, '')
    await until(() => seen.isAwake, 'it is awake')
  })

  // The accident: a release between the refusal and the subscription is told to nobody.
  it('is woken at once if the name was released before it listened', async () => {
    const { ours, theirs, grant } = await contend(name)
    await theirs.release(grant, 0)
    await until(() => everyNode(async (redis) => (await redis.exists(CHANNEL)) === 0), 'it is free')
    const seen = fallAsleep(ours)
    await until(() => seen.isAwake, 'it is awake')
  })

  // The accident: the mark of the refusal is over by then, and a release without one tells nobody.
  it('leaves its mark on every node when it listens', async () => {
    const { ours } = await contend(name)
    for (const redis of stand.inspectors) await redis.del(WANT)
    fallAsleep(ours)
    await until(
      () => everyNode(async (redis) => (await redis.get(WANT)) === 'me'),
      'every node has the mark of who waits',
    )
  })
})
