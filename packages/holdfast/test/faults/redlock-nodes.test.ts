import { describe, expect, it } from 'vitest'
import { InvalidArgumentError } from '../../src/core/errors.ts'
import { createLocks } from '../../src/lock/lock.ts'
import { type RedlockNode, redlockBackend } from '../../src/redlock.ts'
import { openClient, until } from '../support/redis.ts'
import { standOnRedlock } from '../support/redlock-stand.ts'

const stand = standOnRedlock()
const OPTIONS = { onEmpty: 'fresh', nodeTimeoutMs: 5000 } as const

/** Nodes by name, each at the server of that place. */
async function nodesAt(
  places: Readonly<Record<string, number>>,
): Promise<Record<string, RedlockNode>> {
  const nodes: Record<string, RedlockNode> = {}
  for (const [name, place] of Object.entries(places)) {
    const { client, end } = await openClient('ioredis 6', stand.servers[place]?.port ?? 0)
    stand.ends.push(end)
    nodes[name] = { client, subscriber: false }
  }
  return nodes
}

async function failureAt(places: Readonly<Record<string, number>>): Promise<unknown> {
  const locks = createLocks(redlockBackend(await nodesAt(places), OPTIONS))
  stand.ends.push(() => locks.close())
  return locks.acquire('name', { waitMs: 0 }).then(
    () => 'granted',
    (error: unknown) => error,
  )
}

const markers = () => Promise.all(stand.inspectors.map((redis) => redis.get('lock:#hf:marker')))

describe('nodes', () => {
  // B008. The accident: a string is an object of its characters, each of which became a resource.
  it('are an object of clients, or an error before anything is sent', () => {
    for (const wrong of ['redis://a', [], {}, null, { a: 1 }, { 'a,b': {} }]) {
      expect(() => redlockBackend(wrong as never), JSON.stringify(wrong)).toThrow(
        InvalidArgumentError,
      )
    }
  })

  // B048. The accident: three clients of one server, taken for a quorum.
  it('that are one server under two names are an error', async () => {
    const error = await failureAt({ a: 0, b: 0, c: 1 })
    expect(error).toBeInstanceOf(InvalidArgumentError)
    expect(String(error)).toContain('"a" and "b" are one and the same server')
  })

  // B048. A replica follows its primary, so its vote says nothing.
  it('do not vote while they are replicas', async () => {
    const port = stand.servers[0]?.port ?? 0
    const replicas = stand.inspectors.slice(1)
    for (const replica of replicas) await replica.replicaof('127.0.0.1', port)
    try {
      const error = await failureAt({ a: 0, b: 1, c: 2 })
      expect(String(error)).toContain('node "b" is a replica')
    } finally {
      for (const replica of replicas) await replica.replicaof('NO', 'ONE')
    }
  })

  it.each<[string, Readonly<Record<string, number>>]>([
    ['another member', { a: 0, b: 1, d: 2 }],
    ['one less', { a: 0, b: 1 }],
  ])('of a set with %s are refused, and no marker changes', async (_, places) => {
    await expect(failureAt({ a: 0, b: 1, c: 2 })).resolves.toBe('granted')
    await until(
      async () => (await markers()).every((text) => text?.startsWith('hfm1:v:')),
      'all vote',
    )
    const before = await markers()
    const error = await failureAt(places)
    expect(String(error)).toMatch(/another set|belongs to other nodes/)
    expect(await markers()).toEqual(before)
  })
})
