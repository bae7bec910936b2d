import { getEventListeners, once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { endSignal } from '../../../src/connect/end-signal.ts'

// The accident: a server is away for a day, and each try to reach it leaves something behind.
it('keeps the listeners of young sockets alone, and ends those', async () => {
  const server = createServer((socket) => socket.destroy()).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  let nowMs = 0
  const ending = endSignal(() => nowMs)
  const open = (): Socket => connect({ port, host: '127.0.0.1', signal: ending.signal })
  const count = (): number => getEventListeners(ending.signal, 'abort').length
  let most = 0
  for (let turn = 0; turn < 60; turn++) {
    const socket = open()
    socket.on('error', () => undefined)
    await once(socket, 'close')
    nowMs += 1000
    most = Math.max(most, count())
  }
  expect(most).toBeGreaterThan(5)
  expect(most).toBeLessThan(30)
  const young = open()
  const failed = once(young, 'error')
  // Node listens in its next turn.
  await new Promise((resolve) => setImmediate(resolve))
  ending.abort()
  expect((await failed)[0]).toMatchObject({ name: 'AbortError' })
  expect(young.destroyed).toBe(true)
  server.close()
})
