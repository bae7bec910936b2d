import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { startEtcdServer } from '../../src/lab/servers/etcd.ts'
import {
  type EtcdServer,
  MissingServerError,
  startEtcd,
  startEtcdCluster,
} from '../../src/lab/servers/index.ts'
import { findFreePort } from '../../src/lab/servers/ports.ts'
import { isGone } from './helpers.ts'

const started: { stop(): Promise<void> }[] = []

function kept<T extends { stop(): Promise<void> }>(server: T): T {
  started.push(server)
  return server
}

afterEach(async () => {
  for (const server of started.splice(0)) await server.stop()
})

async function etcdctl(server: EtcdServer, ...args: string[]): Promise<string> {
  const { program, env } = server.etcdctl
  const common = [`--endpoints=${server.endpoint}`, '--command-timeout=10s']
  const { stdout } = await promisify(execFile)(program, [...common, ...args], { env })
  return stdout.trim()
}

describe('a private etcd', () => {
  it('is gone after stop, with its folder, also when stopped twice', async () => {
    const server = kept(await startEtcd())
    const { pid, folder } = server
    expect(await etcdctl(server, 'put', 'a', 'b')).toBe('OK')

    await server.stop()
    await server.stop()

    expect(isGone(pid)).toBe(true)
    expect(existsSync(folder)).toBe(false)
  })

  // A test of a restart that lost the data would pass for the wrong reason.
  it('comes back on its port with its data after a kill', async () => {
    const server = kept(await startEtcd())
    const { pid, port } = server
    await etcdctl(server, 'put', 'kept', 'yes')

    await server.kill()
    expect(isGone(pid)).toBe(true)
    await server.restart()

    expect(server.port).toBe(port)
    expect(await etcdctl(server, 'get', '--print-value-only', 'kept')).toBe('yes')
  })

  // Somebody else's etcd would answer as well, and the tests would write into it.
  it('takes another port where somebody else’s etcd listens', async () => {
    const other = kept(await startEtcd())
    const free = [await findFreePort(), await findFreePort(), await findFreePort()]
    const ports = [other.port, ...free]

    const server = kept(await startEtcdServer({}, async () => ports.shift() ?? 0))

    expect(server.port).toBe(free[1])
    await etcdctl(server, 'put', 'ours', 'yes')
    expect(await etcdctl(other, 'get', 'ours')).toBe('')
  })

  it('that is nowhere on the machine is named', () => {
    expect(new MissingServerError('etcd').message).toContain('install the package etcd-server')
  })
})

describe('a private cluster of etcd', () => {
  // The lab's experiments need the very member that leads, and another one to take its place.
  it('has one leader, and another one after the leader’s death', async () => {
    const cluster = kept(await startEtcdCluster())
    const leader = await cluster.leader()
    const others = cluster.members.filter((member) => member !== leader)
    expect(others).toHaveLength(2)
    await etcdctl(leader, 'put', 'kept', 'yes')

    await leader.kill()
    expect(others).toContain(await cluster.leader())

    const [first] = others
    expect(await etcdctl(first as EtcdServer, 'get', '--print-value-only', 'kept')).toBe('yes')
    await leader.restart()
    expect(await leader.isLeader()).toBe(false)
  })
})
