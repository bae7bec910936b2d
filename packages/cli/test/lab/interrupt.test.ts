import { readFileSync } from 'node:fs'
import { afterEach, describe, expect, test } from 'vitest'
import { StartedLab } from './fixtures/run-lab.ts'
import { noSqlite } from './fixtures/sqlite.ts'

if (noSqlite !== null) console.warn(`left out, runs without servers: ${noSqlite}`)

let lab: StartedLab | undefined

afterEach(async () => {
  await lab?.clean()
  lab = undefined
})

/** Eight workers; and a Redis, and a PostgreSQL with children of its own. */
const WORKERS = 8
const PROCESSES_MIN = 10

/** In the middle of the rounds: at least one worker stands still by SIGSTOP. */
async function startAndWaitForRounds(where: readonly string[] = []): Promise<StartedLab> {
  const started = new StartedLab([...where, 'pause', '--rounds', '100', '--lanes', '4', '--json'])
  lab = started
  const count = where.length === 0 ? PROCESSES_MIN : WORKERS
  await started.until('workers at work', () => started.processes().length >= count)
  await started.until('a stopped worker', () => started.processes().some(isStopped))
  return started
}

describe('a run that is ended', () => {
  test.each([
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)('by %s leaves no process and no folder, and exits with %d', async (signal, code) => {
    // A stopped worker does not see SIGTERM; it stayed for ever.
    const started = await startAndWaitForRounds()
    started.child.kill(signal)
    const ended = await started.ended
    expect(ended).toMatchObject({ code, stdout: '' })
    expect(ended.stderr).toBe(`holdfast lab: ended by ${signal}\n`)
    expect(await started.survivors()).toEqual([])
    expect(started.leftovers()).toEqual([])
  })

  test.runIf(noSqlite === null)('without servers leaves no process and no file', async () => {
    // A file of SQLite that somebody still has open is a folder that cannot be trusted to be gone.
    const started = await startAndWaitForRounds(['--embedded'])
    started.child.kill('SIGTERM')
    expect(await started.ended).toMatchObject({ code: 143, stdout: '' })
    expect(await started.survivors()).toEqual([])
    expect(started.leftovers()).toEqual([])
  })

  test('by SIGKILL leaves no worker, and the next run sweeps its servers and folders', () =>
    killAndSweep([]))

  test.runIf(noSqlite === null)('by SIGKILL without servers: the next run sweeps its files', () =>
    killAndSweep(['--embedded']),
  )

  /** Nobody is left who could tidy up: workers end each other when the pipe breaks. */
  async function killAndSweep(where: readonly string[]): Promise<void> {
    const started = await startAndWaitForRounds(where)
    const isWorker = ({ pid }: { pid: number }): boolean => commandOf(pid).includes('worker.js')
    const workers = started.processes().filter(isWorker)
    expect(workers.length).toBeGreaterThanOrEqual(WORKERS)
    started.child.kill('SIGKILL')
    await started.ended
    await expect
      .poll(() => workers.filter(isWorker).length, { timeout: 20_000, interval: 50 })
      .toBe(0)
    const next = new StartedLab([...where, 'unlock', '--rounds', '1', '--json'], {
      env: { TMPDIR: started.tmp },
    })
    try {
      expect(await next.ended).toMatchObject({ code: 0 })
      expect(await started.survivors()).toEqual([])
      expect(started.leftovers()).toEqual([])
    } finally {
      await next.clean()
    }
  }
})

/** The kernel's word (proc(5)): the field after the name in brackets. */
function isStopped({ pid }: { pid: number }): boolean {
  const stat = readProc(pid, 'stat')
  return stat.charAt(stat.lastIndexOf(')') + 2) === 'T'
}

function commandOf(pid: number): string {
  return readProc(pid, 'cmdline')
}

/** Empty for a process that is gone. */
function readProc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1')
  } catch {
    return ''
  }
}
