import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { childEnv } from '../lib/npm-env.mjs'
import { endOf, runQuietly, SetupError } from '../lib/progress.mjs'
import { createFolder, SCRIPTS, startNode, watch } from './helpers.mjs'

describe('a quiet step', () => {
  it('gives its stdout and shows nothing', async () => {
    const run = startNode(
      `const { runQuietly } = await lib('progress.mjs')
       const text = await runQuietly(process.execPath, ['-e', 'console.log("out"); console.error("err")'])
       if (text !== 'out\\n') throw new Error(text)`,
    )

    expect(await run.ended).toMatchObject({ code: 0, stdout: '', stderr: '' })
  })

  it('fails with its command, its exit code and the last 30 lines', async () => {
    const program = 'for (let i = 1; i <= 99; i++) console.error("line " + i); process.exit(7)'

    const failure = await runQuietly(process.execPath, ['-e', program]).catch((error) => error)

    expect(failure).toBeInstanceOf(SetupError)
    expect(failure.message).toContain(`failed (exit code 7): ${process.execPath} -e ${program}`)
    const lines = failure.message.split('\n').slice(1)
    expect(lines.slice(-30)).toEqual(Array.from({ length: 30 }, (_, i) => `line ${70 + i}`))
    expect(lines[0]).toBe('line 1') // npm says what is wrong first, and then how npm is used.
    expect(lines).not.toContain('line 69')
  })

  it('fails in words when there is no such program', async () => {
    await expect(runQuietly('/nowhere/no-such-program', [])).rejects.toThrow(/no-such-program/)
  })

  it('shows a short output whole', () => {
    expect(endOf('a\nb\n')).toBe('a\nb')
  })
})

describe('a signal', () => {
  // `kill` of the outer process left the lab, and its servers, running.
  it('ends what is run in the foreground, and the exit code tells by what', async () => {
    const run = startNode(
      `const { runInForeground } = await lib('children.mjs')
       const program = 'console.log(process.pid); setTimeout(() => {}, 300_000)'
       process.exitCode = await runInForeground(process.execPath, ['-e', program], {})`,
    )
    await run.says('\n')

    run.child.kill('SIGTERM')

    const { code, stdout } = await run.ended
    expect(code).toBe(128 + 15)
    expect(() => process.kill(Number(stdout), 0)).toThrow('ESRCH')
  })

  it('leaves the end to a program that handles it', async () => {
    const run = startNode(
      `const { runInForeground } = await lib('children.mjs')
       const program = 'process.on("SIGINT", () => process.exit(9)); console.log("up"); setTimeout(() => {}, 300_000)'
       process.exitCode = await runInForeground(process.execPath, ['-e', program], {})`,
    )
    await run.says('up')

    run.child.kill('SIGINT')

    expect(await run.ended).toMatchObject({ code: 9 })
  })

  // One of several runs at once that nobody ended would go on without anybody who waits for it.
  it('ends all that are run beside each other, and each line says whose it is', async () => {
    const run = startNode(
      `const { runBeside } = await lib('children.mjs')
       const program =
         'console.log(process.pid); setTimeout(() => console.error("up"), 200); setTimeout(() => {}, 300_000)'
       const names = ['one', 'two']
       const runs = names.map((name) => runBeside(name, process.execPath, ['-e', program], {}))
       console.log((await Promise.all(runs)).join(' and '))`,
    )
    await Promise.all(['one | up', 'two | up'].map((line) => run.says(line)))

    run.child.kill('SIGTERM')

    const { stdout } = await run.ended
    expect(stdout).toMatch(/^143 and 143$/m)
    const pids = Array.from(stdout.matchAll(/^(?:one|two) \| (\d+)$/gm), ([, pid]) => Number(pid))
    expect(new Set(pids).size).toBe(2)
    for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
  })

  // What is compiled beside the tests ended at once, and the script with it, before its tests had.
  it('waits for what is run in the foreground, and nothing more is started beside it', async () => {
    const run = startNode(
      `const { runInForeground } = await lib('children.mjs')
       const { runQuietly } = await lib('progress.mjs')
       const step = () => runQuietly(process.execPath, ['-e', 'setTimeout(() => {}, 300_000)'])
       step().catch(step).catch((error) => console.log(error.message))
       const program = 'process.on("SIGTERM", () => setTimeout(() => process.exit(9), 500)); ' +
         'console.log("up"); setTimeout(() => {}, 300_000)'
       process.exitCode = await runInForeground(process.execPath, ['-e', program], {})`,
    )
    await run.says('up')

    run.child.kill('SIGTERM')

    const { code, stdout } = await run.ended
    expect(code).toBe(9)
    expect(stdout).toContain('is not started: SIGTERM ends this script')
  })

  // SIGTERM to `npm run lab` ended npm and its shell; the lab and its servers went on.
  it('that ends npm ends what npm started', async () => {
    const folder = createFolder()
    try {
      const program = `
        const { runInForeground } = await import(${JSON.stringify(`${SCRIPTS}lib/children.mjs`)})
        const inner = 'console.log("inner " + process.pid); setTimeout(() => {}, 300_000)'
        process.exitCode = await runInForeground(process.execPath, ['-e', inner], {})`
      writeFileSync(join(folder, 'outer.mjs'), program)
      const scripts = { lab: 'node outer.mjs' }
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, scripts }))
      const npm = spawn('npm', ['run', '-s', 'lab'], {
        cwd: folder,
        env: childEnv(process.env),
        stdio: ['ignore', 'pipe', 'pipe'],
      })
      const { ended, says } = watch(npm)
      await says('inner ')

      npm.kill('SIGTERM')

      // Its output is complete when the last process that could write to it has ended.
      const { stdout } = await ended
      expect(() => process.kill(Number(stdout.split(' ')[1]), 0)).toThrow('ESRCH')
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })

  it('ends the set-up itself, its step and its lock with it', async () => {
    const run = startNode(
      `const { runQuietly, say } = await lib('progress.mjs')
       console.log('begins')
       await runQuietly(process.execPath, ['-e', 'setTimeout(() => {}, 300_000)'])
       console.log('goes on')`,
    )
    await run.says('begins')
    // Until the handlers are in place the signal ends it just the same, by its default.
    await new Promise((resolve) => setTimeout(resolve, 300))

    run.child.kill('SIGTERM')

    const { code, stdout } = await run.ended
    expect(code).toBe(128 + 15)
    expect(stdout).not.toContain('goes on')
  })
})
