/**
 * What people write themselves: the yardstick of every ratio.
 *
 * With token: one script sets the key and draws the token, another compares and deletes; two EVALSHA.
 * Without: SET NX PX, and the same compare-and-delete.
 */
import { randomUUID } from 'node:crypto'
import { openIoredis, openNodeRedis } from '../clients.ts'
import {
  type ClientName,
  type Contestant,
  type Locker,
  type Release,
  TTL_MS,
} from '../contestant.ts'

const ACQUIRE = `
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return redis.call('INCR', KEYS[2])
end
return 0
`
const RELEASE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`
const COUNTER = 'hand-written:token'

/** The commands of one client that it takes, in the client's own fastest form. */
interface Commands {
  setIfFree(key: string, owner: string): Promise<unknown>
  acquire(key: string, owner: string): Promise<unknown>
  release(key: string, owner: string): Promise<unknown>
  close(): void
}

export function handWritten(client: ClientName, hasToken: boolean): Contestant {
  return {
    who: 'hand-written',
    variant: hasToken ? 'with token' : 'without token',
    client,
    isOwnerChecked: true,
    hasToken,
    connect: async (port) => {
      const commands = await openCommands(client, port)
      return locker(commands, hasToken)
    },
  }
}

function locker(commands: Commands, hasToken: boolean): Locker {
  return {
    acquire: async (lockName) => {
      const key = `hand-written:${lockName}`
      const owner = randomUUID()
      const granted = hasToken
        ? Number(await commands.acquire(key, owner)) > 0
        : (await commands.setIfFree(key, owner)) === 'OK'
      if (!granted) throw new Error(`${lockName} is held`)
      return releaseOf(commands, key, owner)
    },
    close: async () => commands.close(),
  }
}

function releaseOf(commands: Commands, key: string, owner: string): Release {
  return async () => {
    if (Number(await commands.release(key, owner)) !== 1) throw new Error(`${key} was lost`)
  }
}

async function openCommands(name: ClientName, port: number): Promise<Commands> {
  if (name === 'ioredis') {
    const client = await openIoredis(port)
    const acquireSha = String(await client.script('LOAD', ACQUIRE))
    const releaseSha = String(await client.script('LOAD', RELEASE))
    return {
      setIfFree: (key, owner) => client.set(key, owner, 'PX', TTL_MS, 'NX'),
      acquire: (key, owner) => client.evalsha(acquireSha, 2, key, COUNTER, owner, TTL_MS),
      release: (key, owner) => client.evalsha(releaseSha, 1, key, owner),
      close: () => client.disconnect(),
    }
  }
  const client = await openNodeRedis(port, name)
  const acquireSha = await client.scriptLoad(ACQUIRE)
  const releaseSha = await client.scriptLoad(RELEASE)
  return {
    setIfFree: (key, owner) => client.set(key, owner, { PX: TTL_MS, NX: true }),
    acquire: (key, owner) =>
      client.evalSha(acquireSha, { keys: [key, COUNTER], arguments: [owner, `${TTL_MS}`] }),
    release: (key, owner) => client.evalSha(releaseSha, { keys: [key], arguments: [owner] }),
    close: () => client.destroy(),
  }
}
