import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { isHolderAlive, moveAway, noteOf, withLockFolder } from '../lib/lock-folder.mjs'
import { createFolder, hideProgress, startNode } from './helpers.mjs'

let folder
let lock

beforeEach(() => {
  hideProgress()
  folder = createFolder()
  lock = join(folder, 'setup.lock')
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

function leaveLock(note) {
  mkdirSync(lock)
  writeFileSync(join(lock, 'holder'), note)
}

describe('the lock folder', () => {
  // Two terminals, `npm run lab` in both: two installs into one folder end in neither.
  it('lets one process in at a time, also when all begin on a dead one', async () => {
    const [pid, , ...space] = noteOf(process.pid).split(' ')
    leaveLock([pid, '1', ...space].join(' ')) // Started in the first tick of this boot: not us.
    const journal = join(folder, 'journal')
    const runs = Array.from({ length: 6 }, () =>
      startNode(
        `const { withLockFolder } = await lib('lock-folder.mjs')
         const { appendFileSync } = await import('node:fs')
         for (let round = 0; round < 20; round++) {
           await withLockFolder(${JSON.stringify(lock)}, async () => {
             appendFileSync(${JSON.stringify(journal)}, 'in\\n')
             await new Promise((resolve) => setTimeout(resolve, 1))
             appendFileSync(${JSON.stringify(journal)}, 'out\\n')
           }, { pollMs: 1 })
         }`,
      ),
    )

    for (const run of runs) expect(await run.ended).toMatchObject({ code: 0, stdout: '' })

    expect(readFileSync(journal, 'utf8')).toBe('in\nout\n'.repeat(120))
    expect(existsSync(lock)).toBe(false)
  })

  // Two saw the same dead holder; the slower one acts when the faster one already has the lock.
  it('is not taken from a living holder by who saw the dead one before', () => {
    const dead = '4194303 1 boot namespace'
    leaveLock(dead)
    expect(moveAway(lock, dead)).toBe(true)
    leaveLock(noteOf(process.pid))

    expect(moveAway(lock, dead)).toBe(false)

    expect(readFileSync(join(lock, 'holder'), 'utf8')).toBe(noteOf(process.pid))
  })

  it('waits for a living holder, says so, and gives up in the end', async () => {
    leaveLock(noteOf(process.pid))

    await expect(withLockFolder(lock, async () => {}, { waitMs: 300 })).rejects.toThrow(
      `another set-up still holds ${lock}`,
    )

    expect(existsSync(lock)).toBe(true)
  })

  it('is taken from a holder that was killed', async () => {
    const run = startNode(
      `const { withLockFolder } = await lib('lock-folder.mjs')
       await withLockFolder(${JSON.stringify(lock)}, async () => {
         console.log('locked')
         await new Promise((resolve) => setTimeout(resolve, 300_000))
       })`,
    )
    await run.says('locked')
    run.child.kill('SIGKILL')
    await run.ended
    expect(existsSync(lock)).toBe(true)

    expect(await withLockFolder(lock, async () => 'in', { waitMs: 5_000 })).toBe('in')
  })

  it('is given back when the body fails, and when the process exits inside', async () => {
    await expect(
      withLockFolder(lock, async () => {
        throw new Error('boom')
      }),
    ).rejects.toThrow('boom')
    expect(existsSync(lock)).toBe(false)

    const run = startNode(
      `const { withLockFolder } = await lib('lock-folder.mjs')
       await withLockFolder(${JSON.stringify(lock)}, async () => process.exit(4))`,
    )
    expect(await run.ended).toMatchObject({ code: 4 })
    expect(existsSync(lock)).toBe(false)
  })

  // A folder that somebody else put there: neither ours to remove nor a reason to spin.
  it('leaves alone a folder without a note', async () => {
    mkdirSync(lock)
    appendFileSync(join(lock, 'precious'), 'data')

    await expect(withLockFolder(lock, async () => {}, { waitMs: 100 })).rejects.toThrow(
      'still holds',
    )

    expect(readFileSync(join(lock, 'precious'), 'utf8')).toBe('data')
  })
})

describe('the note of a holder', () => {
  const [pid, ticks, boot, namespace] = noteOf(process.pid).split(' ')

  it.each([
    ['this process', [pid, ticks, boot, namespace], true],
    // The kernel gave the number to somebody else.
    [
      'another process under the same number',
      [pid, String(Number(ticks) - 1), boot, namespace],
      false,
    ],
    ['a number that is free', ['4194303', ticks, boot, namespace], false],
    ['an earlier boot', [pid, ticks, 'c1f2a3b4-0000-4000-8000-000000000000', namespace], false],
    // A container on the same machine: its numbers are not ours, and it may well live.
    ['another namespace', ['4194303', ticks, boot, 'pid:[1]'], true],
  ])('of %s', (_, note, isAlive) => {
    expect(isHolderAlive(note.join(' '))).toBe(isAlive)
  })
})
