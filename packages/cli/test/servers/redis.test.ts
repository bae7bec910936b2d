import { existsSync } from 'node:fs'
import { afterEach, describe, expect, it } from 'vitest'
import { MissingServerError, type RedisServer, startRedis } from '../../src/lab/servers/index.ts'
import { startRedisServer } from '../../src/lab/servers/redis.ts'
import { ServerStartError } from '../../src/lab/servers/server-process.ts'
import { askRedis, becomesTrue, isGone } from './helpers.ts'

const started: RedisServer[] = []

async function start(...options: Parameters<typeof startRedis>): Promise<RedisServer> {
  const server = await startRedis(...options)
  started.push(server)
  return server
}

afterEach(async () => {
  for (const server of started.splice(0)) await server.stop()
})

describe('a private redis-server', () => {
  // A test that runs against the machine's own Redis passes for the wrong reason and damages data.
  it('is the process that was started, on 127.0.0.1 only', async () => {
    const server = await start()

    expect(await askRedis(server.port, 'INFO server')).toContain(`process_id:${server.pid}\r\n`)
    expect(await askRedis(server.port, 'CONFIG GET bind')).toContain('127.0.0.1')
  })

  // Hundreds of leftover servers and folders make a machine unusable after some days of tests.
  it('is gone after stop, with its folder, also when stopped twice', async () => {
    const server = await start()
    const { pid, folder } = server
    expect(existsSync(folder)).toBe(true)

    await server.stop()
    await server.stop()

    expect(isGone(pid)).toBe(true)
    expect(existsSync(folder)).toBe(false)
  })

  // A client that reconnects after a restart knows one address only.
  it('comes back empty on the same port after a restart', async () => {
    const server = await start()
    const { port, pid } = server
    await askRedis(port, 'SET kept no')

    await server.restart()

    expect(server.port).toBe(port)
    expect(server.pid).not.toBe(pid)
    expect(isGone(pid)).toBe(true)
    expect(await askRedis(port, 'GET kept')).toBe('$-1')
  })

  it('comes back with its data when asked to keep it', async () => {
    const server = await start()
    await askRedis(server.port, 'SET kept yes')

    await server.restart({ keepData: true })

    expect(await askRedis(server.port, 'GET kept')).toBe('$3\r\nyes')
  })

  // What was not on disk is lost in a crash: the lab must not save on behalf of a killed server.
  it('has lost what was not on disk after a kill and a restart', async () => {
    const server = await start()
    await askRedis(server.port, 'SET kept no')

    await server.kill()
    expect(isGone(server.pid)).toBe(true)
    expect(existsSync(server.folder)).toBe(true)
    await server.restart({ keepData: true })

    expect(await askRedis(server.port, 'GET kept')).toBe('$-1')
  })

  // A hung server is the fault that naive clients handle worst: connected, and no answer.
  it('accepts connections and does not answer while frozen', async () => {
    const server = await start()

    server.freeze()
    expect(await askRedis(server.port, 'PING', 300)).toBeNull()
    server.thaw()

    expect(await askRedis(server.port, 'PING')).toBe('+PONG')
  })

  it('stops also while frozen', async () => {
    const server = await start()
    server.freeze()

    await server.stop()

    expect(isGone(server.pid)).toBe(true)
  })

  // Between the look for a free port and the bind somebody else may take it; an answer on that port
  // is then somebody else's.
  it('takes another port when the first is taken by another redis-server', async () => {
    const other = await start()
    const free = await start()
    const freePort = free.port
    await free.stop()
    const ports = [other.port, freePort]

    const server = await startRedisServer({}, async () => ports.shift() ?? 0)
    started.push(server)

    expect(server.port).toBe(freePort)
    expect(await askRedis(server.port, 'INFO server')).toContain(`process_id:${server.pid}\r\n`)
  })

  it('says so when a port that was asked for is taken', async () => {
    const other = await start()

    const failure = await startRedis({ port: other.port }).catch((error: unknown) => error)

    expect(failure).toBeInstanceOf(ServerStartError)
    expect((failure as ServerStartError).isPortTaken).toBe(true)
    expect(await askRedis(other.port, 'PING')).toBe('+PONG')
  })

  // "It did not start" without the reason costs an hour.
  it('shows the end of the log when it cannot start', async () => {
    await expect(startRedis({ args: ['--no-such-setting', '1'] })).rejects.toThrow(
      /ended instead of starting[\s\S]*no-such-setting/,
    )
  })

  it('takes further arguments', async () => {
    const server = await start({ args: ['--maxmemory-policy', 'volatile-ttl'] })

    expect(await askRedis(server.port, 'CONFIG GET maxmemory-policy')).toContain('volatile-ttl')
  })

  it('is named as missing, with the reason that the set-up gave', async () => {
    const before = process.env['HOLDFAST_SERVERS']
    process.env['HOLDFAST_SERVERS'] = '{"servers":{},"missing":{"redis":"there is no apt-get"}}'
    try {
      const failure = await startRedis().catch((error: unknown) => error)

      expect(failure).toBeInstanceOf(MissingServerError)
      expect((failure as MissingServerError).server).toBe('redis-server')
      expect((failure as MissingServerError).message).toContain('there is no apt-get')
    } finally {
      if (before === undefined) delete process.env['HOLDFAST_SERVERS']
      else process.env['HOLDFAST_SERVERS'] = before
    }
  })

  it('starts many times at once, each on a port of its own', async () => {
    const servers = await Promise.all(Array.from({ length: 6 }, () => start()))

    expect(new Set(servers.map(({ port }) => port)).size).toBe(6)
    expect(await becomesTrue(() => servers.every(({ pid }) => !isGone(pid)))).toBe(true)
  })
})
