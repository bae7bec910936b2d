import { rmSync } from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createFolder, startNode } from './helpers.mjs'

const mayFetch = process.env.HOLDFAST_REQUIRE_SERVERS === '1'
if (!mayFetch) {
  console.warn('left out, the test that fetches a Node 22: HOLDFAST_REQUIRE_SERVERS is not 1')
}

/** It has no packages: better-sqlite3 does not load from there. */
let empty

beforeEach(() => {
  empty = createFolder()
})

afterEach(() => rmSync(empty, { recursive: true, force: true }))

/** The command `lab` on a machine that has no servers. */
function lab(args, { root = '', env = {} } = {}) {
  return startNode(
    `const { lab } = await lib('main.mjs')
     const servers = { servers: {}, missing: { redis: 'no apt', postgres: 'no apt' } }
     process.exitCode = await lab(${JSON.stringify(args)}, servers${root && `, '${root}'`})`,
    { env: { ...process.env, ...env } },
  ).ended
}

describe('the lab on a machine without servers', () => {
  // Nobody reads the manual of an experiment that ends with "missing".
  it('runs what needs none, and one line says so', async () => {
    const { code, stdout, stderr } = await lab(['unlock', '--rounds', '1', '--json'])

    expect(JSON.parse(stdout)).toMatchObject({
      stores: 'embedded',
      scenarios: [{ name: 'unlock', verdict: 'holds' }],
    })
    expect(stderr.split('\n').filter((line) => line.startsWith('holdfast'))).toEqual([
      expect.stringMatching(
        /^holdfast lab: redis-server is not .*what is run instead is --embedded/,
      ),
    ])
    expect(code).toBe(0)
  })

  // A Node from npm for a run that needs no SQLite would be minutes of waiting, or a refusal.
  it('runs on the servers, by this Node, where etcd alone is missing', async () => {
    const { code, stdout, stderr } = await startNode(
      `const { findServers } = await lib('servers.mjs')
       const { lab } = await lib('main.mjs')
       const { servers } = await findServers(() => {})
       delete servers.etcd
       const found = { servers, missing: { etcd: 'no apt' } }
       process.exitCode = await lab(['unlock', '--rounds', '1', '--json'], found, '${empty}')`,
      { env: process.env },
    ).ended

    const { node, stores, scenarios } = JSON.parse(stdout)
    expect({ node, stores }).toEqual({ node: process.version, stores: 'servers' })
    expect(scenarios.map(({ verdict }) => verdict)).toEqual(['holds'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  it('ends with exit code 3 where nothing of what was asked for is left', async () => {
    expect((await lab(['data-loss'])).code).toBe(3)
  })

  // better-sqlite3 is compiled on install, and a small machine has no compiler.
  it.runIf(mayFetch)('runs under a Node that has a driver of SQLite in itself', async () => {
    const { code, stdout } = await lab(['unlock', '--rounds', '1', '--json'], { root: empty })

    const { node, sqlite, scenarios } = JSON.parse(stdout)
    // This Node may have one; else it is the one from npm.
    expect(node).toMatch(/^v2[2-9]\./)
    expect(sqlite.version).toMatch(/^3\./)
    expect(scenarios.map(({ verdict }) => verdict)).toEqual(['holds'])
    expect(code).toBe(0)
  })

  it.runIf(process.version.startsWith('v20.'))(
    'ends with exit code 3 and one line where no driver of SQLite can be had',
    async () => {
      const env = { HOLDFAST_CACHE: empty, PATH: '/nowhere' }
      const { code, stdout, stderr } = await lab(['unlock'], { root: empty, env })

      expect({ code, stdout }).toEqual({ code: 3, stdout: '' })
      expect(stderr).toContain('has no SQLite of its own')
      expect(stderr.split('\n').filter((line) => line.includes('of its own'))).toHaveLength(1)
    },
  )
})
