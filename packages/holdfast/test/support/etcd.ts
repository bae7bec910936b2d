/** Private members of etcd for tests, what is looked up in them, and pairs of backends on them. */
import { execFile, spawn } from 'node:child_process'
import { promisify } from 'node:util'
import {
  type EtcdCluster,
  type EtcdServer,
  startEtcd,
  startEtcdCluster,
} from '../../../cli/src/lab/servers/index.ts'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import type { EtcdOptions } from '../../src/backends/etcd/options.ts'
import { EtcdClient } from '../../src/clients/etcd/client.ts'
import type { KeyValue } from '../../src/clients/etcd/messages.ts'
import { systemSeams } from '../../src/core/seams.ts'
import type { OpenBackends } from '../../src/testkit/backend-harness.ts'

const LOOK_MS_MAX = 20_000
const ALL = { key: Buffer.from([0]), range_end: Buffer.from([0]) }

/**
 * All keys of an etcd, by a client of the test's own, in the order in which they were made: by their names a
 * lease id would decide, which is drawn.
 */
export async function allKeys(endpoints: readonly string[]): Promise<readonly KeyValue[]> {
  const client = new EtcdClient(() => systemSeams, { endpoints, tls: null, login: null })
  try {
    const answer = await client.read('Range', ALL, LOOK_MS_MAX, 'a look by a test')
    return (answer.kvs ?? []).toSorted((a, b) =>
      Number(BigInt(a.create_revision) - BigInt(b.create_revision)),
    )
  } finally {
    client.close()
  }
}

/** Keys that would never end by themselves. The base of the tokens is none of them. */
export async function keysWithoutLease(endpoints: readonly string[]): Promise<readonly string[]> {
  const keys = await allKeys(endpoints)
  return keys
    .filter(({ lease, key }) => (!lease || lease === '0') && !key.toString().endsWith('#hf:base'))
    .map(({ key }) => key.toString())
}

/** Two backends on one etcd, each with connections of its own. */
export function openEtcdPair(
  endpoints: readonly string[],
  options: Partial<EtcdOptions> = {},
): OpenBackends {
  const ours = etcdBackendWith(systemSeams, { endpoints, ...options })
  const theirs = etcdBackendWith(systemSeams, { endpoints, ...options })
  return {
    ours,
    theirs,
    withoutEnd: () => keysWithoutLease(endpoints),
    close: async () => {
      await Promise.all([ours.close(), theirs.close()])
    },
  }
}

/** Runs the command line of etcd against one member. @returns What it printed, trimmed. */
export async function etcdctl(server: EtcdServer, ...args: string[]): Promise<string> {
  const { program, env } = server.etcdctl
  const common = [`--endpoints=${server.endpoint}`, '--command-timeout=20s']
  const { stdout } = await promisify(execFile)(program, [...common, ...args], { env })
  return stdout.trim()
}

export { type EtcdCluster, type EtcdServer, startEtcd, startEtcdCluster }

/** A program that is not of Holdfast: `etcdctl lock`. */
export interface ForeignLock {
  /** Its key, once it holds the lock. */
  readonly held: Promise<string>
  /** Whether it has said that it holds the lock. */
  isHeld(): boolean
  /** Gives the lock up, or its place in the queue, and resolves when it has ended. */
  end(): Promise<void>
}

export function lockByEtcdctl({ etcdctl, endpoint }: EtcdServer, lockName: string): ForeignLock {
  const args = [`--endpoints=${endpoint}`, 'lock', lockName]
  const child = spawn(etcdctl.program, args, {
    env: etcdctl.env,
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  let text = ''
  const held = new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8')
    child.stdout.on('data', (more: string) => {
      text += more
      if (text.includes('\n')) resolve(text.trim())
    })
    child.once('error', reject)
  })
  return {
    held,
    isHeld: () => text.includes('\n'),
    async end() {
      child.kill('SIGINT')
      await ended
    },
  }
}
