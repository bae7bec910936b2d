/** Drivers of both majors for `connect`, and a count of the connections that a server has. */
import * as ioredis from 'ioredis'
import * as ioredis5 from 'ioredis5'
import * as redis from 'redis'
import * as redis5 from 'redis5'
import type { DriverSource } from '../../src/connect/drivers.ts'
import type { ClientName } from './redis.ts'
import { openInspector } from './redis.ts'

const MODULES: Readonly<Record<ClientName, unknown>> = {
  'ioredis 5': ioredis5,
  'ioredis 6': ioredis,
  'node-redis 5': redis5,
  'node-redis 6': redis,
}

/** As if this one, and no other, were installed. */
export function onlyDriver(client: ClientName): DriverSource {
  const own = client.startsWith('ioredis') ? 'ioredis' : 'redis'
  return {
    load: async (name) => (name === own ? { module: MODULES[client] } : { error: notFound(name) }),
    version: () => `${client.slice(-1)}.0.0`,
  }
}

/** Node's own answer for a package that is not there. */
export function notFound(name: string): Error {
  const error = new Error(`Cannot find package '${name}' imported from /app/main.js`)
  return Object.assign(error, { code: 'ERR_MODULE_NOT_FOUND' })
}

/** The lines of CLIENT LIST, without the one of whoever asks. */
export async function connectionsAt(port: number, password?: string): Promise<string[]> {
  const inspector = await openInspector(port, password)
  try {
    const own = `id=${await inspector.client('ID')} `
    const lines = String(await inspector.client('LIST')).split('\n')
    return lines.filter((line) => line !== '' && !line.startsWith(own) && !/flags=[MS]/.test(line))
  } finally {
    inspector.disconnect()
  }
}
