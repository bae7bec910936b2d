import { spawn } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { startRedis, sweepDeadRuns } from '../../src/lab/servers/index.ts'
import { numberSpace, readProcess } from '../../src/lab/servers/process-identity.ts'
import { becomesTrue, compileStarters, createOpenFolder, isGone, startRunner } from './helpers.ts'

/** Keeps the runner alive without keeping this file's tests waiting for it if they fail. */
const WAIT_FOREVER = 'setTimeout(() => {}, 300_000)'

let starters: Awaited<ReturnType<typeof compileStarters>>
let tmp: string
const tmpBefore = process.env['TMPDIR']

beforeAll(async () => {
  starters = await compileStarters()
})

afterAll(() => starters.remove())

beforeEach(() => {
  tmp = createOpenFolder()
  process.env['TMPDIR'] = tmp
})

afterEach(async () => {
  await sweepDeadRuns()
  if (tmpBefore === undefined) delete process.env['TMPDIR']
  else process.env['TMPDIR'] = tmpBefore
  rmSync(tmp, { recursive: true, force: true })
})

function runFolders(): string[] {
  const base = readdirSync(tmp).find((name) => /^holdfast-\d+$/.test(name))
  return base === undefined ? [] : readdirSync(join(tmp, base)).map((name) => join(tmp, base, name))
}

const isRoot = process.getuid?.() === 0
if (!isRoot) console.warn('left out, the test of a folder of somebody else: only root can make one')

describe('the servers of a runner', () => {
  // The out-of-memory killer and `kill -9` give no chance to tidy up.
  it('are left by a SIGKILL and ended, folders included, by the next sweep', async () => {
    const runner = await startRunner(starters.url, tmp, WAIT_FOREVER)
    runner.signal('SIGKILL')
    await runner.ended
    expect(runner.servers.map(({ pid }) => isGone(pid))).toEqual([false, false])
    expect(runFolders()).toHaveLength(1)

    expect(await sweepDeadRuns()).toBe(1)

    expect(runner.servers.map(({ pid }) => isGone(pid))).toEqual([true, true])
    expect(runFolders()).toEqual([])
    expect(await sweepDeadRuns()).toBe(0)
  })

  it('are ended by the sweep also when they are frozen', async () => {
    const runner = await startRunner(
      starters.url,
      tmp,
      'servers[1].freeze(); setInterval(() => {}, 1_000)',
    )
    runner.signal('SIGKILL')
    await runner.ended

    expect(await sweepDeadRuns()).toBe(1)

    expect(runner.servers.map(({ pid }) => isGone(pid))).toEqual([true, true])
  })

  // Two terminals: the second one's first act must not be to end the first one's servers.
  it('are left alone by the sweep of another runner while theirs lives', async () => {
    const runner = await startRunner(starters.url, tmp, WAIT_FOREVER)
    try {
      expect(await sweepDeadRuns()).toBe(0)
      expect(runner.servers.map(({ pid }) => isGone(pid))).toEqual([false, false])
    } finally {
      runner.signal('SIGTERM')
      await runner.ended
    }
  })

  it.each(['SIGINT', 'SIGTERM', 'SIGHUP'] as const)('end with it on %s', async (signal) => {
    const runner = await startRunner(starters.url, tmp, WAIT_FOREVER)

    runner.signal(signal)

    expect(await runner.ended).toEqual({ code: null, signal }) // As if nobody had listened.
    expect(runner.servers.map(({ pid }) => isGone(pid))).toEqual([true, true])
    expect(runFolders()).toEqual([])
    expect(runner.stderr()).toBe('')
  })

  it.each([
    ['an uncaught exception', 'setTimeout(() => { throw new Error("boom") })', 1],
    ['an unhandled rejection', 'Promise.reject(new Error("boom"))', 1],
    ['process.exit', 'process.exit(7)', 7],
    // A forgotten stop() must not hang the runner.
    ['having nothing left to do', '', 0],
  ])('end with it after %s', async (_, after, code) => {
    const runner = await startRunner(starters.url, tmp, after)

    expect(await runner.ended).toEqual({ code, signal: null })
    expect(runner.servers.map(({ pid }) => isGone(pid))).toEqual([true, true])
    expect(runFolders()).toEqual([])
  })

  // A report that is written after Ctrl-C may still have to ask the servers.
  it('stay until its exit when it has a signal handler of its own', async () => {
    const runner = await startRunner(
      starters.url,
      tmp,
      `process.on('SIGINT', async () => {
         await new Promise((resolve) => setTimeout(resolve, 200))
         for (const { pid } of servers) process.kill(pid, 0)
         process.exit(5)
       })
       ${WAIT_FOREVER}`,
    )

    runner.signal('SIGINT')

    expect(await runner.ended).toEqual({ code: 5, signal: null })
    expect(runner.servers.map(({ pid }) => isGone(pid))).toEqual([true, true])
  })
})

describe('the sweep', () => {
  /** A run of a process that is certainly gone: nothing starts in the first tick of a boot. */
  function leaveDeadRun(record: object | string): string {
    const { bootId, namespace } = numberSpace() ?? { bootId: '', namespace: '' }
    const base = join(tmp, `holdfast-${process.getuid?.() ?? 0}`)
    const folder = join(base, `run-${process.pid}-1-${namespace}-${bootId}`)
    mkdirSync(join(folder, 'redis-abcdef'), { recursive: true })
    const text = typeof record === 'string' ? record : JSON.stringify(record)
    writeFileSync(join(folder, 'server-1.json'), text)
    return folder
  }

  // The kernel gives a number to the next process as soon as it is free: an editor, a database.
  it('does not end a process that got the number of a dead server', async () => {
    const bystander = spawn('sleep', ['300'], { stdio: 'ignore' })
    const pid = bystander.pid ?? 0
    try {
      const startTicks = String(Number(readProcess(pid)?.startTicks) - 1)
      const folder = leaveDeadRun({ pid, startTicks, endSignal: 'SIGKILL' })

      expect(await sweepDeadRuns()).toBe(1)

      expect(existsSync(folder)).toBe(false)
      expect(isGone(pid)).toBe(false)
    } finally {
      bystander.kill('SIGKILL')
    }
  })

  // The control: with the right start time the very same record does end the process.
  it('ends the process whose number and start time were written down', async () => {
    const server = spawn('sleep', ['300'], { stdio: 'ignore' })
    const pid = server.pid ?? 0
    const startTicks = readProcess(pid)?.startTicks ?? ''
    leaveDeadRun({ pid, startTicks, endSignal: 'SIGTERM' })

    expect(await sweepDeadRuns()).toBe(1)

    expect(await becomesTrue(() => isGone(pid))).toBe(true)
  })

  it.each([
    ['cut short', '{"pid": 1'],
    ['empty', ''],
    ['of another shape', '{"pid":"all","startTicks":1,"endSignal":[]}'],
  ])('goes on past a record that is %s', async (_, text) => {
    const folder = leaveDeadRun(text)

    expect(await sweepDeadRuns()).toBe(1)

    expect(existsSync(folder)).toBe(false)
  })

  it('does not touch what it did not make', async () => {
    const folder = leaveDeadRun('{}')
    const foreign = join(dirname(folder), 'notes')
    mkdirSync(foreign)

    await sweepDeadRuns()

    expect(existsSync(foreign)).toBe(true)
  })
})

describe('the folder of a run', () => {
  it('is gone when its last server is stopped', async () => {
    const server = await startRedis()
    const [run] = runFolders()
    expect(run).toBeDefined()
    expect(server.folder.startsWith(`${run}/`)).toBe(true)
    const record = readFileSync(join(run ?? '', `server-${server.pid}.json`), 'utf8')
    expect(JSON.parse(record)).toMatchObject({ pid: server.pid })

    await server.stop()

    expect(runFolders()).toEqual([])
  })

  // Anybody may make a folder in /tmp: what stands there could lead the sweep elsewhere.
  it.runIf(isRoot)('is refused where somebody else made it', async () => {
    const { chownSync } = await import('node:fs')
    const base = join(tmp, 'holdfast-0')
    mkdirSync(base)
    chownSync(base, 65_534, 65_534)

    await expect(sweepDeadRuns()).rejects.toThrow(/belongs to somebody else/)
    rmSync(base, { recursive: true })
  })
})
