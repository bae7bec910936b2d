import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type RedisServer, startRedis } from '../../src/lab/servers/index.ts'

const HOLDFAST = fileURLToPath(new URL('../../dist/main.js', import.meta.url))
const SECRET = 'tell-nobody'
const RUN_MS_MAX = 60_000

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}

const servers: Record<string, RedisServer> = {}

beforeAll(async () => {
  const started = await Promise.all([...'abcd'].map(() => startRedis()))
  for (const [place, server] of started.entries()) servers['abcd'[place] ?? ''] = server
  servers['e'] = await startRedis({ args: ['--requirepass', SECRET] })
})

afterAll(async () => {
  for (const server of Object.values(servers)) await server.stop()
})

function run(args: readonly string[], env: Record<string, string> = {}): Promise<Ended> {
  return new Promise((resolve) => {
    const options = { timeout: RUN_MS_MAX, env: { ...process.env, ...env } }
    execFile(process.execPath, [HOLDFAST, 'redlock', ...args], options, (error, stdout, stderr) => {
      resolve({ code: Number(error?.code ?? 0), stdout, stderr })
    })
  })
}

function nodes(names: string, prefix = ''): string[] {
  const common = prefix === '' ? [] : ['--prefix', prefix]
  return [...[...names].map((name) => `${name}=${urlOf(name)}`), ...common]
}

function urlOf(name: string): string {
  return `redis://127.0.0.1:${servers[name]?.port}`
}

async function statesOf(names: string, prefix: string): Promise<[number, string]> {
  const { code, stdout } = await run(['status', ...nodes(names, prefix), '--json'])
  const { nodes: statuses } = JSON.parse(stdout) as { nodes: { state: string }[] }
  return [code, statuses.map(({ state }) => state).join()]
}

describe('holdfast redlock', () => {
  test('status tells of nodes that nobody has used, in a table and as JSON', async () => {
    const table = await run(['status', ...nodes('abc', 'new:')])
    expect(table).toMatchObject({ code: 1, stderr: '' })
    expect(table.stdout).toMatch(/│ b +│ empty +│ +121\.3 s │/)
    expect(table.stdout).toContain(
      'key prefix "new:": 0 of 3 vote, 2 are needed: no lock is granted',
    )
    const json = await run(['status', ...nodes('abc', 'new:'), '--json'])
    expect(json.code).toBe(1)
    const empty = { state: 'empty', waitMs: 121_300, maxTtlMs: null, detail: null }
    expect(JSON.parse(json.stdout)).toEqual({
      ...{ keyPrefix: 'new:', votingCount: 0, quorum: 2 },
      nodes: ['a', 'b', 'c'].map((node) => ({ node, ...empty })),
    })
  })

  test('init lets nodes vote, also without one that is gone, after a wait', async () => {
    const beganAtMs = performance.now()
    const first = await run(['init', '--force', ...nodes('abc', 'i:'), '--max-ttl', '1000'])
    expect(first.code).toBe(0)
    expect(first.stdout).toContain('3 of 3 vote, 2 are needed: locks are granted')
    expect(first.stderr).toMatch(/^waiting for 1\.\d s, until leases of before are over\n$/)
    expect(performance.now() - beganAtMs).toBeGreaterThan(1110)
    expect(await statesOf('abc', 'i:')).toEqual([0, 'voting,voting,voting'])
    const others = [...nodes('ab', 'j:'), 'x=redis://127.0.0.1:1', '--max-ttl', '100']
    const without = await run(['init', ...others, '--force'])
    expect(without.code).toBe(0)
    expect(without.stdout).toMatch(/│ x +│ unreachable +│ +│ +│ connect ECONNREFUSED/)
  })

  test('init gives up where a majority does not answer, and says which', async () => {
    const others = ['x=redis://127.0.0.1:1', 'y=redis://127.0.0.1:2', ...nodes('a', 'k:')]
    const { code, stdout, stderr } = await run(['init', ...others, '--force'])
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain('0 of 3 nodes may vote, 2 are needed; no answer from "x", "y"')
    expect(stderr).toContain('node "x": connect ECONNREFUSED 127.0.0.1:1')
  })

  test('reconfigure moves to another set, and does no harm when it is said again', async () => {
    await run(['init', '--force', ...nodes('abc', 'r:'), '--max-ttl', '100'])
    const move = [
      'reconfigure',
      '--from',
      ...nodes('abc'),
      '--to',
      ...nodes('abd'),
      '--prefix',
      'r:',
    ]
    for (let time = 0; time < 2; time++) {
      const { code, stdout } = await run(move)
      expect(code).toBe(0)
      expect(stdout).toContain('3 of 3 vote, 2 are needed: locks are granted')
    }
    expect(await statesOf('abc', 'r:')).toEqual([1, 'wrong-set,wrong-set,closed'])
    expect(await statesOf('abd', 'r:')).toEqual([0, 'voting,voting,voting'])
    const wrong = await run(['init', '--force', ...nodes('abc', 'r:')])
    expect(wrong.code).toBe(1)
    expect(wrong.stderr).toContain('have moved to another set of nodes, so node "c" says')
    const same = await run(['reconfigure', '--from', ...nodes('abd'), '--to', ...nodes('abd')])
    expect(same.code).toBe(2)
    expect(same.stderr).toContain('other node names than those of from')
  })

  // The accident: programs call the nodes host:port, and their operators could not say so.
  test('nodes by the names of connect, each or as one URL, are the same set for every command', async () => {
    const hosts = [...'abc'].map((name) => `127.0.0.1:${servers[name]?.port}`)
    const set = `redlock://${hosts.join()}`
    const each = hosts.map((host) => `${host}=redis://${host}`)
    const common = ['--prefix', 's:', '--json']
    expect((await run(['init', '--force', set, '--max-ttl', '100', ...common])).code).toBe(0)
    const seen = [await run(['status', set, ...common]), await run(['status', ...each, ...common])]
    for (const { code, stdout } of seen) {
      expect(code).toBe(0)
      expect(JSON.parse(stdout).nodes.map(({ node }: { node: string }) => node)).toEqual(
        [...hosts].sort(),
      )
    }
    const next = ['--to', ...nodes('ab'), ...common]
    expect((await run(['reconfigure', '--from', set, ...next])).code).toBe(0)
  })

  // The accident: an incident is pasted into a ticket, password and all.
  test('passwords come from the URL or the environment, and are never printed', async () => {
    const { port = 0 } = servers['e'] ?? {}
    const right = [`e=redis://:${SECRET}@127.0.0.1:${port}`, '--max-ttl', '100', '--force']
    const first = await run(['init', ...right])
    expect(first.code).toBe(0)
    const byEnv = await run(['status', `e=redis://127.0.0.1:${port}`], {
      HOLDFAST_REDIS_PASSWORD: SECRET,
    })
    expect(byEnv.code).toBe(0)
    const wrong = await run(['status', `e=redis://:wrong-${SECRET}@127.0.0.1:${port}`])
    expect(wrong.code).toBe(1)
    expect(wrong.stdout).toMatch(/unreachable .*WRONGPASS/)
    const none = await run(['status', `e=redis://127.0.0.1:${port}`])
    expect(none.stdout).toMatch(/unreachable .*NOAUTH/)
    const broken = await run(['status', `e=redis://:${SECRET}/x@127.0.0.1:${port}`])
    expect(broken.code).toBe(2)
    const url = `e=redis://:${SECRET}@127.0.0.1:${port}`
    const odd = [await run([url]), await run(['status', `redis://:${SECRET}@h`])]
    odd.push(await run(['status', url, `--password=${SECRET}`]))
    odd.push(await run(['init', url, '--force', '--max-ttl', url]))
    for (const { code } of odd) expect(code).toBe(2)
    for (const { stdout, stderr } of [first, byEnv, wrong, none, broken, ...odd]) {
      expect(stdout + stderr).not.toContain(SECRET)
    }
  })

  test.each([
    ['a node without a name', ['status', 'redis://h'], 'not of the form name=redis://host:port'],
    ['another scheme', ['status', 'a=http://h'], "node 'a' does not begin with redis://"],
    ['a path', ['status', 'a=redis://h/x'], "node 'a' goes on with something else"],
    ['a parameter', ['status', 'a=redis://h?db=1'], "node 'a' has more than"],
    ['a node twice', ['status', 'a=redis://h', 'a=redis://i'], "node 'a' is given twice"],
    ['no node', ['status'], "missing required argument 'nodes'"],
    ['init without --force', ['init', 'a=redis://h'], "option '--force' has to be said"],
    [
      'a fraction',
      ['init', 'a=redis://h', '--force', '--max-ttl', '1.5'],
      'a whole number from 100',
    ],
    ['no new set', ['reconfigure', '--from', 'a=redis://h'], "required option '--to"],
  ])('%s is wrong usage', async (_, args, words) => {
    const { code, stdout, stderr } = await run(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toContain(words)
  })
})
