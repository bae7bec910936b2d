import { existsSync, readFileSync } from 'node:fs'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type PostgresServer, startPostgres } from '../../src/lab/servers/index.ts'
import { startPostgresServer } from '../../src/lab/servers/postgres.ts'
import { becomesTrue, isGone } from './helpers.ts'

/** A client whose connection may be killed under it. */
async function connect(server: PostgresServer): Promise<pg.Client> {
  const client = new pg.Client(server.connection)
  client.on('error', () => {})
  await client.connect()
  return client
}

async function show(client: pg.Client, setting: string): Promise<string> {
  const { rows } = await client.query<{ value: string }>('SELECT current_setting($1) AS value', [
    setting,
  ])
  return rows[0]?.value ?? ''
}

describe('a private PostgreSQL', () => {
  let server: PostgresServer

  beforeAll(async () => {
    server = await startPostgres()
  })

  afterAll(async () => {
    await server.stop()
  })

  // Without fsync a crash may lose a committed fence, and with it the guard's whole promise.
  it('answers as itself, durably, in UTC and on TCP only', async () => {
    const client = await connect(server)
    try {
      expect(await show(client, 'data_directory')).toBe(`${server.folder}/data`)
      expect(await show(client, 'fsync')).toBe('on')
      expect(await show(client, 'TimeZone')).toBe('GMT')
      expect(await show(client, 'listen_addresses')).toBe('127.0.0.1')
      expect(await show(client, 'unix_socket_directories')).toBe('')
    } finally {
      await client.end()
    }
  })

  // PostgreSQL refuses to run as root, and the gate runs as root.
  it('does not run as root', () => {
    const status = readFileSync(`/proc/${server.pid}/status`, 'utf8')

    expect(/^Uid:\s+(\d+)/m.exec(status)?.[1]).not.toBe('0')
  })

  // SIGSTOP to the first process alone leaves every open connection served: no freeze at all.
  it('does not answer on an open connection while frozen', async () => {
    const client = await connect(server)
    try {
      server.freeze()
      const answer = client.query('SELECT 1').then(() => 'answered')
      const silence = new Promise((resolve) => setTimeout(resolve, 300, 'silent'))

      expect(await Promise.race([answer, silence])).toBe('silent')
      server.thaw()
      expect(await answer).toBe('answered')
    } finally {
      server.thaw()
      await client.end()
    }
  })

  it('takes settings, and another port when the first is taken', async () => {
    const ports = [server.port, server.port + 1, server.port + 2]
    const other = await startPostgresServer(
      { settings: { fsync: 'off' } },
      async () => ports.shift() ?? 0,
    )
    try {
      expect(other.port).not.toBe(server.port)
      const client = await connect(other)
      expect(await show(client, 'fsync')).toBe('off')
      await client.end()
    } finally {
      await other.stop()
    }
    expect(isGone(other.pid)).toBe(true)
    expect(existsSync(other.folder)).toBe(false)
  })

  // A killed first process alone leaves its children, which may finish a commit: not a crash.
  it('takes its children along when killed', async () => {
    const victim = await startPostgres({ settings: { fsync: 'off' } })
    try {
      const client = await connect(victim)
      const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid')
      const backend = rows[0]?.pid ?? 0
      expect(isGone(backend)).toBe(false)
      const sleeping = client.query('SELECT pg_sleep(600)').catch((error: unknown) => error)

      await victim.kill()

      expect(isGone(backend)).toBe(true)
      expect(await sleeping).toBeInstanceOf(Error)
    } finally {
      await victim.stop()
    }
    expect(existsSync(victim.folder)).toBe(false)
  })

  it('shows the end of the log when it cannot start', async () => {
    await expect(startPostgres({ settings: { shared_buffers: 'much' } })).rejects.toThrow(
      /ended instead of starting[\s\S]*shared_buffers/,
    )
    expect(await becomesTrue(() => !isGone(server.pid))).toBe(true)
  })
})
