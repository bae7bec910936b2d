import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, it } from 'vitest'
import { confirm } from '../../src/backends/etcd/confirming.ts'
import type { Context } from '../../src/backends/etcd/context.ts'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import type { Session } from '../../src/backends/etcd/sessions.ts'
import { EtcdClient } from '../../src/clients/etcd/client.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { startProxy } from '../../src/testkit/proxy.ts'
import { allKeys, type EtcdServer, etcdctl, startEtcd } from '../support/etcd.ts'
import { until } from '../support/redis.ts'

const ends: (() => unknown)[] = []

afterEach(async () => {
  for (const end of ends.splice(0).reverse()) await end()
})

async function serverWith(...args: string[]): Promise<EtcdServer> {
  const server = await startEtcd({ args })
  ends.push(() => server.stop())
  return server
}

function locksOn(endpoint: string, options: { username?: string; password?: string } = {}) {
  const backend = etcdBackendWith(systemSeams, { endpoints: [endpoint], ...options })
  const locks = createLocksWith(systemSeams, backend, { ttlMs: 30_000 })
  ends.push(() => locks.close())
  return locks
}

async function switchUsersOn(server: EtcdServer): Promise<void> {
  await etcdctl(server, 'user', 'add', 'root:top')
  await etcdctl(server, 'user', 'grant-role', 'root', 'root')
  await etcdctl(server, 'role', 'add', 'reader')
  await etcdctl(server, 'role', 'grant-permission', 'reader', 'read', '--prefix', '')
  await etcdctl(server, 'user', 'add', 'watcher:eyes')
  await etcdctl(server, 'user', 'grant-role', 'watcher', 'reader')
  await etcdctl(server, 'auth', 'enable')
}

// B074. The login was over when the lock was to be released; keep-alives need none, so nothing had warned.
it('a login that is over is made again, and the release succeeds', async () => {
  const server = await serverWith('--auth-token-ttl', '2')
  await switchUsersOn(server)
  const locks = locksOn(server.endpoint, { username: 'root', password: 'top' })
  const lease = await locks.acquire('held')
  // Logins live in the memory of the members; this one is forgotten.
  await server.restart()
  await until(async () => {
    const info = await locks.inspect('held').catch(() => null)
    return info?.fencingToken === lease.fencingToken
  }, 'it serves again')
  // One that is not used ends after its time to live.
  await sleep(6000)
  expect(await lease.release()).toBe('released')
  const again = await locks.acquire('held', { waitMs: 20_000 })
  expect(again.fencingToken).toBeGreaterThan(lease.fencingToken)
})

it('who may not write is told so, and leaves no session behind', async () => {
  const server = await serverWith()
  await switchUsersOn(server)
  for (const login of [{ username: 'watcher', password: 'eyes' }, {}]) {
    const locks = locksOn(server.endpoint, login)
    await expect(locks.acquire('mine', { waitMs: 20_000 })).rejects.toMatchObject({
      ...{ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' },
    })
  }
  const wrong = locksOn(server.endpoint, { username: 'root', password: 'secret-word' })
  const error = await wrong.acquire('mine').catch((reason: Error) => reason)
  expect(error).toMatchObject({ code: 'BACKEND_UNAVAILABLE', why: 'no-permission' })
  expect(JSON.stringify(error)).not.toContain('secret-word')
})

// B074. The watch broke when the login was over, and was refused: it was begun again ten times a second, and
// each time the read that would have logged in was put off.
it('a waiter whose watch is refused for its login has its turn all the same', async () => {
  const server = await serverWith()
  const proxy = await startProxy(server.port)
  ends.push(() => proxy.close())
  await switchUsersOn(server)
  const login = { username: 'root', password: 'top' }
  await locksOn(server.endpoint, login).acquire('refused')
  // Its next keep-alive is 40 s away: that would log in too.
  const waiting = locksOn(`127.0.0.1:${proxy.port}`, login).acquire('refused', {
    ...{ ttlMs: 120_000, waitMs: 60_000 },
  })
  const root = ['--user', 'root:top']
  const list = ['get', '--prefix', '--keys-only', '--sort-by=CREATE', 'refused/']
  const places = async (): Promise<string[]> =>
    (await etcdctl(server, ...root, ...list)).split('\n').filter((line) => line !== '')
  await until(async () => (await places()).length === 2, 'it stands')
  await etcdctl(server, ...root, 'auth', 'disable')
  await etcdctl(server, 'auth', 'enable')
  proxy.reset()
  await sleep(500)
  const [held = ''] = await places()
  await etcdctl(server, ...root, 'del', held)
  const lease = await Promise.race([waiting, sleep(15_000, null)])
  expect(lease?.isHeld).toBe(true)
}, 60_000)

// B075. A watch that is begun again at a revision that was compacted away ends, and its waiter with it.
it('a waiter whose watch was lost and compacted away has its turn', async () => {
  const server = await serverWith()
  const proxy = await startProxy(server.port)
  ends.push(() => proxy.close())
  const holder = locksOn(server.endpoint)
  const lease = await holder.acquire('compacted')
  const waiting = locksOn(`127.0.0.1:${proxy.port}`).acquire('compacted', { waitMs: 60_000 })
  await until(async () => (await allKeys([server.endpoint])).length === 2, 'it stands')
  const raw = new EtcdClient(() => systemSeams, {
    ...{ endpoints: [server.endpoint], tls: null, login: null },
  })
  ends.push(() => raw.close())

  proxy.drop('toServer')
  proxy.drop('toClient')
  let revision = ''
  for (let count = 0; count < 1000; count++) {
    const put = { request_put: { key: Buffer.from('noise'), value: Buffer.from(`${count}`) } }
    const answer = await raw.write(
      'Txn',
      { compare: [], success: [put], failure: [] },
      5000,
      'noise',
    )
    revision = answer.header.revision ?? ''
  }
  await etcdctl(server, 'compact', revision)
  proxy.heal()
  proxy.reset()
  await lease.release()

  expect((await waiting).fencingToken).toBeGreaterThan(lease.fencingToken)
})

// B073. During an election etcd answered a time to live of centuries, and of -1.
it('an odd time to live is not believed', async () => {
  const answers = ['9223372036', '9223372036', '60', '-1']
  const session: Session = {
    ...{
      id: '1',
      hex: '1',
      ttlMs: 60_000,
      isOwn: false,
      confirmed: { nowMs: 0, bootMs: 0 },
      term: '2',
    },
    ...{ isOver: false, cancelCount: 0, refreshing: null },
  }
  let asked = 0
  const context = {
    seams: () => systemSeams,
    keys: { base: Buffer.from('base') },
    sessions: {
      end: (ended: Session) => {
        ended.isOver = true
      },
    },
    client: {
      keepAlive: async () => ({ TTL: answers[asked++], header: { raft_term: '3' } }),
      read: async () => ({ header: { raft_term: '3' }, responses: [{ response_range: {} }] }),
    },
  } as unknown as Context
  const beforeMs = systemSeams.nowMs()
  await confirm(context, session, [], 5000)
  // The third answer is the first that counts, and it was asked for after the others.
  expect(asked).toBe(3)
  expect(session.confirmed.nowMs).toBeGreaterThan(beforeMs + 90)
  expect(session.term).toBe('3')
  await confirm(context, session, [], 5000)
  expect(session.isOver).toBe(true)
})
