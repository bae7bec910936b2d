import { expect, it } from 'vitest'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { type RedlockOptions, redlockBackend, redlockInit } from '../../../src/redlock.ts'
import { NodeClient } from '../../../src/sim/node/client.ts'
import { RedisNode } from '../../../src/sim/node/node.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

const node = new RedisNode(seamsOf(createVirtualClock()))
const clientOf = () => new NodeClient(node) as never
const one = clientOf()

function failureOf(nodes: unknown, options: unknown): unknown {
  try {
    redlockBackend(nodes as never, options as RedlockOptions)
  } catch (error) {
    return error
  }
  return null
}

it.each<[option: string, allowed: string, nodes: unknown]>([
  ['nodes', 'an object of clients by node name', 'redis://a'],
  ['nodes', 'an object of clients by node name', [clientOf()]],
  ['nodes', 'an object of clients by node name', null],
  ['nodes', '1 to 99 clients', {}],
  ['nodes', '1 to 99 clients', Object.fromEntries(Array.from({ length: 100 }, (_, n) => [n, {}]))],
  ['nodes', 'without comma', { 'a,b': clientOf() }],
  ['nodes', 'without comma', { 'a\n': clientOf() }],
  ['nodes', '1 to 64 bytes', { '': clientOf() }],
  ['nodes', '1 to 64 bytes', { ['é'.repeat(33)]: clientOf() }],
  ['nodes', 'UTF-8', { '\ud800': clientOf() }],
  ['nodes.a', 'a Redis client', { a: 1 }],
  ['nodes.a', 'ioredis 5 or 6', { a: { eval: () => 1 } }],
  ['nodes.b.client', 'ioredis 5 or 6', { a: clientOf(), b: {} }],
  ['nodes.b.client', 'ioredis 5 or 6', { a: clientOf(), b: { client: null } }],
  ['nodes.a.duarble', 'client, subscriber, durable', { a: { client: one, duarble: true } }],
  ['nodes.a.durable', 'true or false', { a: { client: one, durable: 1 } }],
  ['nodes.a.subscriber', 'a client', { a: { client: one, subscriber: 'yes' } }],
  ['nodes.b', 'another client than that of node "a"', { a: one, b: one }],
])('%s allows %s', (option, allowed, nodes) => {
  const error = failureOf(nodes, {})
  expect(error).toBeInstanceOf(InvalidArgumentError)
  expect(error).toMatchObject({ option, allowed: expect.stringContaining(allowed) })
})

it.each<[option: string, allowed: string, options: unknown]>([
  ['options', 'an object', null],
  ['options', 'an object', []],
  ['maxTtl', 'maxTtlMs', { maxTtl: 1000 }],
  ['keyPrefix', 'up to 64 bytes', { keyPrefix: 'k'.repeat(65) }],
  ['sourceId', 'up to 64 bytes', { sourceId: 5 }],
  ['maxTtlMs', '100 to 86400000', { maxTtlMs: 99 }],
  ['maxTtlMs', '100 to 86400000', { maxTtlMs: 86_400_001 }],
  ['maxTtlMs', '100 to 86400000', { maxTtlMs: 1000.5 }],
  ['nodeTimeoutMs', '10 to 60000', { nodeTimeoutMs: 9 }],
  ['nodeTimeoutMs', '10 to 60000', { nodeTimeoutMs: 60_001 }],
  ['onEmpty', "'wait', 'fresh' or 'refuse'", { onEmpty: 'go' }],
])('%s allows %s', (option, allowed, options) => {
  const error = failureOf({ a: clientOf() }, options)
  expect(error).toBeInstanceOf(InvalidArgumentError)
  expect(error).toMatchObject({ option, allowed: expect.stringContaining(allowed) })
})

it('ranges include their ends', () => {
  const names = [...'éé'.repeat(16)].join('')
  for (const options of [
    { maxTtlMs: 100, nodeTimeoutMs: 10, keyPrefix: '', sourceId: 's'.repeat(64) },
    { maxTtlMs: 86_400_000, nodeTimeoutMs: 60_000, keyPrefix: 'k'.repeat(64), onEmpty: 'refuse' },
  ]) {
    expect(failureOf({ [names]: clientOf() }, options)).toBeNull()
  }
})

it.each([undefined, {}, { force: 1 }, { force: 'true' }])(
  'to let nodes vote by force has to be said: %s does not',
  async (options) => {
    await expect(redlockInit({ a: clientOf() }, options as never)).rejects.toMatchObject({
      ...{ code: 'INVALID_ARGUMENT', option: 'force' },
    })
  },
)
