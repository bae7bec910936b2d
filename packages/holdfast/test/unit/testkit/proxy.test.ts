import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { type FaultProxy, startProxy } from '../../../src/testkit/proxy.ts'
import { resetSocket } from '../../../src/testkit/proxy-line.ts'

/** Says back what it is told, and writes down what it heard. */
let echo: Server
let proxy: FaultProxy
let server: { heard: string; ends: number; sockets: Socket[]; error: string | undefined }
let sockets: Socket[]

beforeEach(async () => {
  // Of this test alone: the sockets of the one before may close during it.
  const own: typeof server = { heard: '', ends: 0, sockets: [], error: undefined }
  server = own
  sockets = []
  echo = createServer((socket) => {
    sockets.push(socket)
    own.sockets.push(socket)
    socket.on('error', (error: NodeJS.ErrnoException) => {
      own.error = error.code
    })
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

function start(port = proxy.port): Client {
  const socket = connect(port, '127.0.0.1')
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

  // An end in place of a reset: the client takes half an answer for a whole one.
  it('hands on a reset as a reset, of either side', async () => {
    const one = await open()
    await expect.poll(() => server.sockets.length).toBe(1)
    server.sockets[0]?.resetAndDestroy()
    await expect.poll(() => one.error).toBe('ECONNRESET')
    const two = await open()
    await expect.poll(() => server.sockets.length).toBe(2)
    two.socket.resetAndDestroy()
    await expect.poll(() => server.error).toBe('ECONNRESET')
    await expect.poll(() => proxy.connectionCount).toBe(0)
  })

  it('keeps 200 connections apart, and counts them', async () => {
    const clients = await Promise.all(Array.from({ length: 200 }, open))
    await expect.poll(() => [proxy.connectionCount, proxy.acceptedCount]).toEqual([200, 200])
    for (const [index, { socket }] of clients.entries()) socket.write(`<${index}>`)
    await expect
      .poll(() => clients.every(({ answer }, index) => answer === `<${index}>`), {
        timeout: 20_000,
      })
      .toBe(true)
    for (const { socket } of clients) socket.end()
    await expect
      .poll(() => [proxy.connectionCount, server.ends], { timeout: 20_000 })
      .toEqual([0, 200])
    expect(proxy.acceptedCount).toBe(200)
  })

  it('resets a client whose server is not there, and leads the next one to where there is one', async () => {
    const gone = createServer().listen(0, '127.0.0.1')
    await once(gone, 'listening')
    const { port } = gone.address() as AddressInfo
    await new Promise((resolve) => gone.close(resolve))
    await using early = await startProxy(port)
    const refused = start(early.port)
    await expect.poll(() => refused.isClosed).toBe(true)
    const late = createServer((socket) => socket.end('here'))
    late.listen(port, '127.0.0.1')
    await once(late, 'listening')
    const served = start(early.port)
    await expect.poll(() => served.answer).toBe('here')
    // And a name that moves leads to another server from then on.
    early.serverPort = (echo.address() as AddressInfo).port
    const moved = start(early.port)
    moved.socket.write('there')
    await expect.poll(() => moved.answer).toBe('there')
    await new Promise((resolve) => late.close(resolve))
  })
})

/** What a socket has not got rid of once it gets rid of nothing more. */
async function settledLength(socket: Socket): Promise<number> {
  for (let looks = 0, last = -1; looks < 100; looks++) {
    for (let quiet = 0; quiet < 5 && socket.writableLength === last; quiet++) await look()
    if (socket.writableLength === last) return last
    last = socket.writableLength
  }
  throw new Error('it does not settle')
}

const PIECE = Buffer.alloc(1024 * 1024, 'x')
const PIECES = 64

describe('a sender whose bytes are not taken', () => {
  // A proxy that reads on keeps it all in memory, and hides from the sender that nobody listens.
  it.each(['a server that does not read', 'a direction that is kept back'])(
    'is held up by %s, and loses nothing',
    async (reason) => {
      const client = await open()
      await expect.poll(() => server.sockets.length).toBe(1)
      const [accepted] = server.sockets
      // Nothing is said back: the other direction has its own test.
      accepted?.removeAllListeners('data').pause()
      let received = 0
      if (reason.startsWith('a direction')) proxy.hold('toServer')
      for (let count = 0; count < PIECES; count++) client.socket.write(PIECE)
      const before = await settledLength(client.socket)
      // Taken: the buffers of two connections and the proxy's own; the rest is with the sender.
      expect(before).toBeGreaterThan((PIECES / 2) * PIECE.length)
      accepted?.on('data', ({ length }) => {
        received += length
      })
      accepted?.resume()
      proxy.letGo('toServer')
      await expect.poll(() => received, { timeout: 20_000 }).toBe(PIECES * PIECE.length)
    },
  )
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

  it('spreads by a jitter, and still hands on in order', async () => {
    const client = await open()
    proxy.delay('toServer', 0, 40)
    for (const letter of 'abcdefghij') {
      client.socket.write(letter)
      await new Promise((resolve) => setTimeout(resolve, 3))
    }
    await expect.poll(() => client.answer).toBe('abcdefghij')
  })

  it.each(['toServer', 'toClient'] as const)(
    '%s holds for a connection that comes later, in that direction alone',
    async (direction) => {
      proxy.hold(direction)
      const client = await open()
      client.socket.write('a')
      const isHeard = direction === 'toClient'
      if (isHeard) await expect.poll(() => server.heard).toBe('a')
      await look()
      expect([server.heard, client.answer]).toEqual([isHeard ? 'a' : '', ''])
      proxy.letGo(direction)
      await expect.poll(() => client.answer).toBe('a')
    },
  )

  // A stream with a hole is no TCP: the answer to one request would be taken for that to another.
  it('loses one direction for good, the end of it too, and new connections are whole', async () => {
    const client = await open()
    proxy.drop('toClient')
    client.socket.write('a')
    await expect.poll(() => server.heard).toBe('a')
    proxy.heal()
    client.socket.write('b')
    await expect.poll(() => server.heard).toBe('ab')
    await look()
    expect(client.answer).toBe('')
    proxy.drop('toServer')
    client.socket.end('c')
    await look()
    expect([server.heard, server.ends]).toEqual(['ab', 0])
    proxy.heal()
    const next = await open()
    next.socket.write('d')
    await expect.poll(() => next.answer).toBe('d')
    proxy.reset()
    await expect.poll(() => server.ends).toBe(2)
  })

  it('that loses nothing is no fault', async () => {
    const client = await open()
    proxy.drop('toClient')
    proxy.drop('toServer')
    proxy.heal()
    client.socket.write('a')
    await expect.poll(() => client.answer).toBe('a')
  })

  // One side has gone, and the other goes on waiting: how clients come to hang for a quarter of an hour.
  it('leaves a connection half open', async () => {
    const client = await open()
    await expect.poll(() => server.sockets.length).toBe(1)
    proxy.drop('toClient')
    server.sockets[0]?.resetAndDestroy()
    await look()
    client.socket.write('is anybody there?')
    await look()
    expect([client.isClosed, client.error, proxy.connectionCount]).toEqual([false, undefined, 1])
    proxy.resetClient()
    await expect.poll(() => [client.error, proxy.connectionCount]).toEqual(['ECONNRESET', 0])
  })

  it('breaks the server’s end alone', async () => {
    const client = await open()
    client.socket.write('a')
    await expect.poll(() => client.answer).toBe('a')
    proxy.resetServer()
    await expect.poll(() => [server.error, client.isClosed]).toEqual(['ECONNRESET', true])
    expect(client.error).toBeUndefined()
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

it('refuses wrong input, naming it', async () => {
  for (const port of [0, 65_536, 1.5, Number.NaN, '6379' as unknown as number]) {
    await expect(startProxy(port)).rejects.toMatchObject({ option: 'port', value: port })
  }
  for (const delayMs of [-1, Number.POSITIVE_INFINITY, 0.5]) {
    expect(() => proxy.delay('toClient', delayMs)).toThrow(InvalidArgumentError)
    expect(() => proxy.delay('toClient', 0, delayMs)).toThrow(/jitterMs is/)
  }
})

// Node reports EINVAL, forgets the handle without closing it, and never comes to its own end.
it('a socket whose end is on its way out can be reset, and is closed', async () => {
  let error: Error | undefined
  const listener = createServer({ allowHalfOpen: true })
  listener.listen(0, '127.0.0.1')
  await once(listener, 'listening')
  const peer = connect({ port: (listener.address() as AddressInfo).port, host: '127.0.0.1' })
  const [socket] = (await once(listener, 'connection')) as [Socket]
  sockets.push(peer, socket)
  peer.on('error', () => undefined)
  socket.on('error', (failed) => {
    error = failed
  })
  const closed = once(socket, 'close')
  socket.end('x')
  process.nextTick(() => resetSocket(socket))
  await closed
  expect(error).toBeUndefined()
  listener.close()
})
