import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type FaultProxy, startProxy } from '../../../src/testkit/proxy.ts'

/** Says back what it is told, and writes down what it heard. */
let echo: Server
let proxy: FaultProxy
let server: { heard: string; ends: number }
let sockets: Socket[]

beforeEach(async () => {
  // Of this test alone: the sockets of the one before may close during it.
  const own = { heard: '', ends: 0 }
  server = own
  sockets = []
  echo = createServer((socket) => {
    sockets.push(socket)
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      own.heard += bytes
      socket.write(bytes)
    })
    socket.on('close', () => {
      own.ends += 1
    })
  })
  echo.listen(0, '127.0.0.1')
  await once(echo, 'listening')
  proxy = await startProxy((echo.address() as AddressInfo).port)
})

afterEach(async () => {
  await proxy.close()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => echo.close(resolve))
})

interface Client {
  readonly socket: Socket
  answer: string
  error: string | undefined
  isClosed: boolean
}

async function open(): Promise<Client> {
  const client = start()
  await once(client.socket, 'connect')
  return client
}

function start(): Client {
  const socket = connect(proxy.port, '127.0.0.1')
  const client: Client = { socket, answer: '', error: undefined, isClosed: false }
  sockets.push(socket)
  socket.on('data', (bytes) => {
    client.answer += bytes
  })
  socket.on('error', (error: NodeJS.ErrnoException) => {
    client.error = error.code
  })
  socket.on('close', () => {
    client.isClosed = true
  })
  return client
}

const LOOK_MS = 60
const look = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, LOOK_MS))

describe('a proxy without faults', () => {
  // An experiment through a proxy that changes what passes proves nothing about its faults.
  it('hands on every byte, and the end of either side', async () => {
    const client = await open()
    const text = 'x'.repeat(300_000)
    client.socket.end(text)
    await expect.poll(() => client.answer.length).toBe(text.length)
    await expect
      .poll(() => [client.isClosed, client.error, server.ends])
      .toEqual([true, undefined, 1])
    expect(server.heard).toBe(text)
    await expect.poll(() => proxy.connectionCount).toBe(0)
  })
})

describe('a fault', () => {
  it('delays one direction, in order, and not the other', async () => {
    const client = await open()
    proxy.delay('toClient', 150)
    const beganAtMs = performance.now()
    client.socket.write('a')
    await expect.poll(() => server.heard).toBe('a')
    client.socket.write('b')
    await expect.poll(() => client.answer).toBe('ab')
    expect(performance.now() - beganAtMs).toBeGreaterThanOrEqual(149)
  })

  it('keeps back until it lets go, and then hands on in order', async () => {
    const client = await open()
    proxy.hold('toServer')
    client.socket.write('a')
    client.socket.write('b')
    await look()
    expect(server.heard).toBe('')
    proxy.letGo('toServer')
    client.socket.write('c')
    await expect.poll(() => client.answer).toBe('abc')
  })

  // What was sent before the sender went is still under way: the server hears it, then the end.
  it('that keeps back does so with the end of a client that has gone', async () => {
    const client = await open()
    proxy.hold('toServer')
    client.socket.write('late')
    await look()
    proxy.resetClient()
    await expect.poll(() => client.error).toBe('ECONNRESET')
    await look()
    expect([server.heard, server.ends]).toEqual(['', 0])
    proxy.letGo('toServer')
    await expect.poll(() => [server.heard, server.ends]).toEqual(['late', 1])
  })

  it('loses one direction for good, the end of it too', async () => {
    const client = await open()
    proxy.drop('toClient')
    client.socket.write('a')
    await expect.poll(() => server.heard).toBe('a')
    proxy.heal()
    client.socket.write('b')
    await expect.poll(() => client.answer).toBe('b')
    proxy.drop('toServer')
    client.socket.end('c')
    await look()
    expect([server.heard, server.ends]).toEqual(['ab', 0])
  })

  it('breaks both ends, and refuses new ones', async () => {
    const client = await open()
    client.socket.write('a')
    await expect.poll(() => client.answer).toBe('a')
    proxy.reset()
    await expect.poll(() => [client.error, server.ends]).toEqual(['ECONNRESET', 1])
    proxy.isRefusing = true
    const refused = start()
    await expect.poll(() => refused.isClosed).toBe(true)
    expect(refused.error).toBe('ECONNRESET')
    proxy.heal()
    const next = await open()
    next.socket.write('b')
    await expect.poll(() => next.answer).toBe('b')
  })

  // The moment that matters is a message, not a time.
  it('can be set by what passes, for that connection alone, before it is handed on', async () => {
    const one = await open()
    const two = await open()
    const seen: string[] = []
    proxy.onBytes = (direction, bytes, connection) => {
      seen.push(`${connection.id} ${direction} ${bytes}`)
      if (direction === 'toServer' && `${bytes}` === 'COMMIT') connection.drop('toClient')
    }
    one.socket.write('COMMIT')
    await expect.poll(() => server.heard).toBe('COMMIT')
    two.socket.write('x')
    await expect.poll(() => two.answer).toBe('x')
    await look()
    expect(one.answer).toBe('')
    expect(seen).toContain('1 toServer COMMIT')
    expect(seen).toContain('2 toClient x')
  })
})
