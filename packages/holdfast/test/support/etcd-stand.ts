/** One private etcd for a file of tests, and what each test opens there. */
import { afterAll, afterEach, beforeAll } from 'vitest'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import type { EtcdOptions } from '../../src/backends/etcd/options.ts'
import type { Backend } from '../../src/core/backend.ts'
import type { Locks, LocksOptions } from '../../src/core/lease.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { createLocksWith } from '../../src/lock/lock.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { allKeys, type EtcdServer, etcdctl, startEtcd } from './etcd.ts'

export interface EtcdStand {
  readonly server: EtcdServer
  /** Run when the test is over, the last one first. */
  readonly ends: (() => unknown)[]
  /** With connections of its own: a process, as etcd sees it. */
  backend(options?: Partial<EtcdOptions>): Backend
  locks(defaults?: LocksOptions, options?: Partial<EtcdOptions>): Locks
}

/** Registers the hooks of the file that calls it. */
export function standOnEtcd(args: readonly string[] = []): EtcdStand {
  const ends: (() => unknown)[] = []
  let server: EtcdServer
  beforeAll(async () => {
    server = await startEtcd({ args })
  })
  afterEach(async () => {
    for (const end of ends.splice(0).reverse()) await end()
  })
  afterAll(() => server?.stop())
  const backend = (options: Partial<EtcdOptions> = {}): Backend => {
    const made = etcdBackendWith(systemSeams, { endpoints: [server.endpoint], ...options })
    ends.push(() => made.close())
    return made
  }
  return {
    get server() {
      return server
    },
    ends,
    backend,
    locks(defaults, options) {
      const made = createLocksWith(systemSeams, backend(options), defaults)
      ends.push(() => made.close())
      return made
    },
  }
}

/** Registers the hooks of a proxy before that etcd, which every test finds as it was opened. */
export function proxyOn(stand: EtcdStand): { readonly proxy: FaultProxy } {
  let proxy: FaultProxy
  beforeAll(async () => {
    proxy = await startProxy(stand.server.port)
  })
  afterEach(() => {
    proxy.heal()
    proxy.reset()
  })
  afterAll(() => proxy?.close())
  return {
    get proxy() {
      return proxy
    },
  }
}

/** The keys of those who hold a name or wait for it, past Holdfast. */
export async function placesIn({ server }: EtcdStand, lockName: string) {
  const keys = await allKeys([server.endpoint])
  return keys.filter(({ key }) => key.toString().startsWith(`${lockName}/`))
}

/** The ids of all leases, hexadecimal. */
export async function leasesIn({ server }: EtcdStand): Promise<string[]> {
  const listed = await etcdctl(server, 'lease', 'list')
  return listed.split('\n').filter((line) => /^[0-9a-f]+$/.test(line))
}
