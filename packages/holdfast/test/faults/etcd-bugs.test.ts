/** Bugs of the etcd backend that no simulation knows, put into copies of its sources: each shows on a real member. */
import { symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { etcdBackendWith } from '../../src/backends/etcd/etcd-backend.ts'
import type { Backend } from '../../src/core/backend.ts'
import { type Seams, systemSeams } from '../../src/core/seams.ts'
import type { Mutant } from '../../src/sim/mutants.ts'
import { Mutants } from '../../src/sim/mutate.ts'
import { acquired, request } from '../../src/testkit/backend-harness.ts'
import { type FaultProxy, startProxy } from '../../src/testkit/proxy.ts'
import { allKeys } from '../support/etcd.ts'
import { standOnEtcd } from '../support/etcd-stand.ts'
import { until } from '../support/redis.ts'

const MODULES = fileURLToPath(new URL('../../../../node_modules', import.meta.url))
const PATIENCE_MS = 300_000

const stand = standOnEtcd()
let proxy: FaultProxy
let compiled: Mutants

async function placesOf(lockName: string) {
  const keys = await allKeys([stand.server.endpoint])
  return keys.filter(({ key }) => key.toString().startsWith(`${lockName}/`))
}

/** Of the sources as they are, or with a bug; every name is of one case and one of the two. */
interface Scene {
  readonly name: string
  /** By way of the proxy. */
  readonly backend: Backend
  /** Another process, directly. */
  readonly other: Backend
  with(seams: Seams): Backend
}

interface Case {
  readonly mutant: Mutant
  /** What is so on the sources as they are. */
  readonly holds: string
  shows(scene: Scene): Promise<unknown>
  readonly expected: unknown
}

const bug = (name: string, file: string, text: string, replacement: string): Mutant => ({
  ...{ name, scenario: 'nominal', world: 'memory', seed: 1 },
  patches: [{ name, file: `backends/etcd/${file}`, text, replacement }],
})

const CASES: readonly Case[] = [
  {
    // B070.
    mutant: bug(
      'etcdTurnUnproven',
      'queue.ts',
      'if (isOurs && (await this.#isProven(entry).catch(unproven))) {',
      'if (isOurs) {',
    ),
    holds: 'a turn that comes late is not granted before the place has been looked at',
    async shows({ name, backend, other }) {
      const holder = await acquired(other, name)
      const { signal } = new AbortController()
      const asked = request(name, { ttlMs: 3000 })
      const attempt = backend.acquireInTurn?.(asked, signal, () => undefined)
      const outcome = attempt?.then(
        ({ kind }) => kind,
        () => 'failed',
      )
      await until(async () => (await placesOf(name)).length === 2, 'it stands')
      // It watches the queue, and has read it.
      await sleep(500)
      proxy.hold('toServer')
      proxy.hold('toClient')
      await other.release(holder, 0)
      await until(async () => (await placesOf(name)).length === 0, 'its session has ended')
      proxy.letGo('toClient')
      return Promise.race([outcome, sleep(500, 'waits')])
    },
    expected: 'waits',
  },
  {
    mutant: bug(
      'etcdCancelNoTombstone',
      'asking.ts',
      `        isAbsent(keys.rangeOf(lockName)),
        isAbsent({ key: keys.cancelKey(owner) }),
`,
      `        isAbsent(keys.rangeOf(lockName)),
`,
    ),
    holds: 'an acquire that comes after its cancel is not done',
    async shows({ name, other }) {
      const asked = request(name, { ttlMs: 7000 + CASES.length * 1000 })
      const attempt = other.tryAcquire(asked)
      await other.cancel(name, asked.owner)
      await attempt.catch(() => undefined)
      return (await placesOf(name)).length
    },
    expected: 0,
  },
  {
    mutant: bug(
      'etcdMoveBelieved',
      'renewing.ts',
      'if (found.lease === session.id) {',
      'if (found.lease) {',
    ),
    holds: 'a place that lies on another session than the one kept alive is moved back',
    async shows({ name, backend }) {
      const grant = await acquired(backend, name, { ttlMs: 8000 })
      const before = (await placesOf(name))[0]?.lease
      await acquired(backend, `${name}:longer`, { ttlMs: 12_000 })
      proxy.hold('toClient')
      await expect(backend.renew(grant, 12_000)).rejects.toMatchObject({ code: 'OUTCOME_UNKNOWN' })
      proxy.letGo('toClient')
      expect((await placesOf(name))[0]?.lease).not.toBe(before)
      await backend.renew(grant, 8000)
      return (await placesOf(name))[0]?.lease === before
    },
    expected: true,
  },
  {
    mutant: bug(
      'etcdStrayOfOthers',
      'asking.ts',
      'if (!sessions.isShared(lease) || entries.get(owner, lockName)) return',
      'if (sessions.isShared(lease)) return',
    ),
    holds: 'the place of another process is left alone, whoever asks',
    async shows({ name, backend, other }) {
      await acquired(other, name)
      expect((await backend.tryAcquire(request(name))).kind).toBe('held')
      await sleep(300)
      return (await placesOf(name)).length
    },
    expected: 1,
  },
  {
    mutant: bug('etcdSleepForgotten', 'sessions.ts', 'return nowMs - sleptMs', 'return nowMs'),
    holds: 'what was slept since a session was proven is taken off a grant',
    async shows(scene) {
      let sleptMs = 0
      const backend = scene.with({
        ...systemSeams,
        // A sleep moves both; by the wall clock it is seen at once.
        bootMs: (nowMs) => systemSeams.bootMs(nowMs) + sleptMs,
        wallMs: () => systemSeams.wallMs() + sleptMs,
      })
      await acquired(backend, `${scene.name}:first`)
      sleptMs = 9000
      const atMs = systemSeams.nowMs()
      const { sentAtMs } = await acquired(backend, scene.name)
      return sentAtMs <= atMs - 9000
    },
    expected: true,
  },
]

beforeAll(async () => {
  proxy = await startProxy(stand.server.port)
  compiled = await Mutants.compile(CASES.map(({ mutant }) => mutant))
  symlinkSync(MODULES, join(compiled.folder, 'node_modules'))
}, PATIENCE_MS)

afterEach(() => {
  proxy.heal()
  proxy.reset()
})

afterAll(async () => {
  compiled?.remove()
  await proxy?.close()
})

function sceneOf(name: string, make: typeof etcdBackendWith): Scene {
  const open = (seams: Seams, port: number): Backend => {
    const backend = make(seams, { endpoints: [`127.0.0.1:${port}`] })
    stand.ends.push(() => backend.close())
    return backend
  }
  return {
    name,
    backend: open(systemSeams, proxy.port),
    other: open(systemSeams, stand.server.port),
    with: (seams) => open(seams, stand.server.port),
  }
}

it.each(CASES)('$holds', { timeout: 60_000 }, async ({ mutant, shows, expected }) => {
  expect(await shows(sceneOf(`${mutant.name}:sound`, etcdBackendWith))).toEqual(expected)
})

it.each(CASES)('$mutant.name shows', { timeout: 60_000 }, async ({ mutant, shows, expected }) => {
  const path = join(compiled.folderOf(mutant), '../backends/etcd/etcd-backend.js')
  const copy = await import(pathToFileURL(path).href)
  expect(await shows(sceneOf(`${mutant.name}:bug`, copy.etcdBackendWith))).not.toEqual(expected)
})
