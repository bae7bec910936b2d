import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { unpackedFolder } from '../lib/servers.mjs'
import { createFolder, startNode } from './helpers.mjs'

const mayUnpack = process.env.HOLDFAST_REQUIRE_SERVERS === '1'
if (!mayUnpack) {
  console.warn('left out, the test that unpacks a server: HOLDFAST_REQUIRE_SERVERS is not 1')
}

let cache

beforeEach(() => {
  cache = createFolder()
})

afterEach(() => rmSync(cache, { recursive: true, force: true }))

/** Runs `findServers` as on a machine that has none, with an empty cache. */
function find(env) {
  return startNode(
    `const { findServers } = await lib('servers.mjs')
     console.log(JSON.stringify(await findServers()))`,
    {
      env: { ...process.env, HOLDFAST_CACHE: cache, HOLDFAST_IGNORE_MACHINE_SERVERS: '1', ...env },
    },
  ).ended
}

describe('servers', () => {
  // Neither a stack trace nor a run that silently leaves out half of itself.
  it('are named as missing, one line each, where there is no apt', async () => {
    const { code, stdout, stderr } = await find({ PATH: '/nowhere' })

    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toEqual({
      servers: {},
      missing: {
        redis: 'apt-get is not on this machine',
        postgres: 'apt-get is not on this machine',
        etcd: 'apt-get is not on this machine',
      },
    })
    expect(stderr.trim().split('\n')).toHaveLength(3)
    expect(stderr).toContain('redis-server is not on this machine and cannot be unpacked')
  })

  it('on the machine are taken as they are', async () => {
    const bin = join(cache, 'bin')
    mkdirSync(bin)
    for (const program of ['redis-server', 'postgres', 'initdb', 'etcd', 'etcdctl']) {
      writeFileSync(join(bin, program), '', { mode: 0o755 })
    }

    const { stdout } = await find({ PATH: bin, HOLDFAST_IGNORE_MACHINE_SERVERS: '0' })

    const programs = { folder: bin, libraryPath: '' }
    expect(JSON.parse(stdout)).toEqual({
      servers: { redis: programs, postgres: programs, etcd: programs },
      missing: {},
    })
  })

  // A power cut in the middle of an unpack: every later run would find a server that lacks a library.
  it.runIf(mayUnpack)(
    'are unpacked from the machine’s package sources, and what was left half-done does not count',
    async () => {
      // Where it will be, as an interrupted unpack leaves it: the program, not its libraries.
      const target = unpackedFolder(cache, 'redis')
      mkdirSync(`${target}.new/usr/bin`, { recursive: true })
      writeFileSync(`${target}.new/usr/bin/half-done`, '')
      const unpack = startNode(
        `const { unpack } = await lib('servers.mjs')
         console.log(JSON.stringify(await unpack('redis')))`,
        { env: { ...process.env, HOLDFAST_CACHE: cache } },
      )

      const { code, stdout, stderr } = await unpack.ended

      expect(stderr).toContain('unpacking redis-server')
      expect(code).toBe(0)
      const { folder, libraryPath } = JSON.parse(stdout)
      const version = execFileSync(join(folder, 'redis-server'), ['--version'], {
        env: { LD_LIBRARY_PATH: libraryPath },
      })
      expect(String(version)).toContain('Redis server v=')
      expect(existsSync(join(folder, 'half-done'))).toBe(false)
      expect(readdirSync(dirname(target))).toEqual(['redis'])
    },
  )
})
