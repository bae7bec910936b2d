import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Children, moduleUrl, openChildren } from '../support/child.ts'
import { CLIENT_NAMES, type ClientName, until } from '../support/redis.ts'
import { standOnRedis } from '../support/redis-stand.ts'

const stand = standOnRedis()
const CONTENDERS = 100
const HOLDERS = 20
const SILENT_MS = 8000
/** Of what the process used before; seen was a twentieth. */
const GROWTH_SHARE_MAX = 0.25
let children: Children

beforeAll(async () => {
  children = await openChildren()
})

afterAll(() => children?.remove())

/** Bytes of the heap, and how many renewals failed. */
type Used = Readonly<Record<'before' | 'after' | 'atEnd' | 'failures', number>>

/** A client with every option as its family has it by default: what a beginner writes. */
const CLIENTS: Readonly<Record<ClientName, (port: number) => string>> = {
  'ioredis 5': (port) => byIoredis('ioredis5', port),
  'ioredis 6': (port) => byIoredis('ioredis', port),
  'node-redis 5': (port) => byNodeRedis('redis5', port),
  'node-redis 6': (port) => byNodeRedis('redis', port),
}

const byIoredis = (name: string, port: number): string => `
  import * as ioredis from ${moduleUrl(name)}
  const client = new ioredis.Redis(${port}, '127.0.0.1')
  client.on('error', () => {})
  const end = () => client.disconnect()
`

const byNodeRedis = (name: string, port: number): string => `
  import * as redis from ${moduleUrl(name)}
  const client = redis.createClient({ socket: { host: '127.0.0.1', port: ${port} } })
  client.on('error', () => {})
  await client.connect()
  const end = () => client.destroy()
`

const program = (name: ClientName, port: number): string => `
${CLIENTS[name](port)}
import { createLocks } from './dist/index.js'
import { redisBackend } from './dist/redis.js'
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const told = (word) => new Promise((resolve) => {
  process.on('message', (message) => message === word && resolve())
})
/** What is still used once nothing more can be given back, in bytes. */
async function usedBytes() {
  for (let count = 0; count < 10; count += 1) {
    globalThis.gc()
    await sleep(5)
  }
  return process.memoryUsage().heapUsed
}
const locks = createLocks(redisBackend(client))
const failures = []
locks.on('renewal-failed', () => failures.push(0))
const leases = await Promise.all(Array.from({ length: ${HOLDERS} }, (_, index) =>
  locks.acquire('own' + index, { ttlMs: 12_000 })))
const sections = Promise.all(Array.from({ length: ${CONTENDERS} }, () =>
  locks.using('k', { ttlMs: 20_000, waitMs: 50_000 }, () => {})))
const [silent, awake] = [told('silent'), told('awake')]
await sleep(1000)
const before = await usedBytes()
process.send('ready')
await silent
await sleep(${SILENT_MS})
const after = await usedBytes()
process.send('measured')
await awake
await sections
await Promise.all(leases.map((lease) => lease.release()))
const atEnd = await usedBytes()
console.log(JSON.stringify({ before, after, atEnd, failures: failures.length }))
await locks.close()
end()
process.disconnect()
`

describe.each(CLIENT_NAMES)('a process with %s as it is by default', (name) => {
  // Every try of everybody stayed in the client's queues until the store came back, if it did.
  it('piles nothing up behind a black hole, though many wait and renew', async () => {
    const holder = await (await stand.locks()).acquire('k', { ttlMs: 60_000 })
    const child = children.run(program(name, stand.proxy.port), ['--expose-gc'])
    await child.sent('ready')
    stand.proxy.drop('toServer')
    stand.proxy.drop('toClient')
    child.send('silent')
    await child.sent('measured', SILENT_MS + 20_000)
    stand.proxy.heal()
    stand.proxy.reset()
    await holder.release()
    child.send('awake')
    const { code, stdout, stderr } = await child.ended
    expect([code, stderr]).toEqual([0, ''])
    const { before, after, atEnd, failures } = JSON.parse(stdout) as Used
    // Or nobody has tried anything.
    expect(failures).toBeGreaterThanOrEqual(HOLDERS)
    expect(after - before).toBeLessThan(before * GROWTH_SHARE_MAX)
    expect(atEnd - before).toBeLessThan(before * GROWTH_SHARE_MAX)
    await until(async () => (await stand.redis.exists('lock:k')) === 0, 'nothing is held')
  })
})
