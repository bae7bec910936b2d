import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Children, moduleUrl, openChildren } from '../support/child.ts'
import { until } from '../support/redis.ts'
import { standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
const WARM = 1500
const CYCLES = 6000
/** A request that is kept takes some 500 bytes, a lease that is kept 1,000. */
const BYTES_PER_CYCLE_MAX = 100
const PROBES_MAX = 4
/** Under way at a node that had kept up, when it was stopped. */
const WINDOW_MAX = 1024
let children: Children

beforeAll(async () => {
  children = await openChildren()
})

afterAll(() => children?.remove())

type Used = Readonly<Record<'before' | 'after' | 'queuedBefore' | 'queued' | 'granted', number>>

/** Clients with every option as ioredis has it by default. */
const program = (ports: readonly number[]): string => `
import { Redis } from ${moduleUrl('ioredis')}
import { createLocks } from './dist/index.js'
import { redlockBackend } from './dist/redlock.js'
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const clients = {}
for (const [place, port] of ${JSON.stringify(ports)}.entries()) {
  const client = new Redis(port, '127.0.0.1')
  client.on('error', () => {})
  clients['abc'[place]] = { client, subscriber: false }
}
async function usedBytes() {
  for (let count = 0; count < 10; count += 1) {
    globalThis.gc()
    await sleep(5)
  }
  return process.memoryUsage().heapUsed
}
const locks = createLocks(redlockBackend(clients, { onEmpty: 'fresh', maxTtlMs: 30_000 }))
let granted = 0
async function burst(count) {
  for (let turn = 0; turn < count / 100; turn += 1) {
    await Promise.all(Array.from({ length: 100 }, async (_, index) => {
      const lease = await locks.acquire(turn + ':' + index, { ttlMs: 20_000, waitMs: 10_000 })
      granted += 1
      await lease.release()
    }))
  }
}
await burst(${WARM})
const told = (word) => new Promise((resolve) => {
  process.on('message', (message) => message === word && resolve())
})
const [silent, over] = [told('silent'), told('over')]
process.send('ready')
await silent
await burst(${WARM})
const queue = () => {
  const { commandQueue, offlineQueue } = clients.c.client
  return commandQueue.length + offlineQueue.length
}
const before = await usedBytes()
const queuedBefore = queue()
granted = 0
await burst(${CYCLES})
const after = await usedBytes()
const queued = queue()
console.log(JSON.stringify({ before, after, queuedBefore, queued, granted }))
process.send('measured')
await over
await locks.close()
for (const { client } of Object.values(clients)) client.disconnect()
process.disconnect()
`

// The accident: each cycle left two commands in the queue of the client, for as long as the node hung.
it('a long burst beside a node that hangs leaves queue and heap as they were', async () => {
  const child = children.run(program(stand.servers.map(({ port }) => port)), ['--expose-gc'])
  await child.sent('ready')
  stand.servers[2]?.freeze()
  child.send('silent')
  await child.sent('measured', 60_000)
  stand.servers[2]?.thaw()
  const left = async (): Promise<string[]> => (await stand.inspectors[2]?.keys('lock:*:*')) ?? []
  await until(
    async () => (await left()).every((key) => key.includes('#hf:')),
    'nothing of it is left on the node',
  )
  child.send('over')
  const { code, stdout, stderr } = await child.ended
  expect([code, stderr]).toEqual([0, ''])
  const { before, after, queuedBefore, queued, granted } = JSON.parse(stdout) as Used
  expect(granted).toBe(CYCLES)
  expect(queuedBefore).toBeLessThanOrEqual(WINDOW_MAX)
  expect(queued - queuedBefore).toBeLessThanOrEqual(PROBES_MAX)
  expect((after - before) / CYCLES).toBeLessThan(BYTES_PER_CYCLE_MAX)
}, 120_000)
