/** A process that works on locks in a file, killed at every point where that could matter. */
import { copyFileSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sqliteBackendWith } from '../../src/backends/sqlite/sqlite-backend.ts'
import type { SqliteDatabase } from '../../src/clients/sqlite.ts'
import type { Grant } from '../../src/core/backend.ts'
import { systemSeams } from '../../src/core/seams.ts'
import { type Children, openChildren } from '../support/child.ts'
import { CALL, type Disk, openDisk, whyNoDiskShim } from '../support/disk-shim.ts'
import { quickFolder } from '../support/quick-folder.ts'
import { childDrivers, childHead } from '../support/sqlite-child.ts'
import {
  judgeRows,
  judgeSteps,
  LONGER_TTL_MS,
  prepareSteps,
  STEPS,
  STEPS_TEXT,
  stepRequest,
} from '../support/sqlite-steps.ts'

/** More than the program has points of any kind. */
const POINTS_MAX = 1000
/** So many processes at a time. */
const LANES = 2

/**
 * What stands between the program and its driver: it counts, and ends the process before the statement
 * of that number. Before each one is after each one too: nothing reaches the file in between.
 */
const killedBefore = (killAt: number): string => `((killAt) => {
  let count = 0
  const counted = (target, names) => new Proxy(target, { get(_, name) {
    const value = target[name]
    if (typeof value !== 'function') return value
    if (name === 'prepare') return (sql) => counted(target.prepare(sql), ['run', 'get', 'all'])
    return (...given) => {
      if (names.includes(name) && ++count === killAt) process.kill(process.pid, 'SIGKILL')
      return value.apply(target, given)
    }
  } })
  return counted(opened, ['exec'])
})(${killAt})`

const whyNot = whyNoDiskShim()
if (whyNot !== null) console.warn(`left out, kills between the calls of the kernel: ${whyNot}`)

describe.each(childDrivers)(
  'a process that is killed at work on a lock file, with $name,',
  (driver) => {
    let children: Children
    let root: string
    let template: string
    let grants: Record<string, Grant>

    beforeAll(async () => {
      children = await openChildren()
      root = quickFolder('holdfast-killed-')
      template = join(root, 'template.db')
      const db = driver.open(template)
      const backend = sqliteBackendWith(systemSeams, db)
      grants = await prepareSteps(backend)
      await backend.close()
      // The last connection takes the log into the file.
      db.close()
    })

    afterAll(async () => {
      await children.remove()
      rmSync(root, { recursive: true, force: true })
    })

    async function runSteps(
      folder: string,
      name: string,
      wrap: string | undefined,
      env: Readonly<Record<string, string>>,
    ): Promise<'killed' | 'done'> {
      const file = join(folder, `${name}.db`)
      const notes = join(root, `${name}.notes`)
      copyFileSync(template, file)
      const json = JSON.stringify(grants, (_key, value) =>
        typeof value === 'bigint' ? `${value}n` : value,
      )
      const head = childHead({ file, notes, ...(wrap === undefined ? {} : { wrap }) })
      const text = `${head}
const grants = JSON.parse(${JSON.stringify(json)}, (key, value) =>
  key === 'fencingToken' ? BigInt(value.slice(0, -1)) : value)
${STEPS_TEXT}
process.exit(0)`
      const { signal, code, stderr } = await children.run(text, [], env).ended
      if (signal !== 'SIGKILL' && code !== 0)
        throw new Error(`the program ended by itself: ${stderr}`)
      await judge(file, notes)
      return signal === 'SIGKILL' ? 'killed' : 'done'
    }

    async function judge(file: string, notes: string): Promise<void> {
      const lines = readFileSync(notes, 'utf8').split('\n').filter(Boolean)
      const db = driver.open(file)
      try {
        expect(db.prepare('PRAGMA integrity_check').get()).toMatchObject({ integrity_check: 'ok' })
        judgeRows(db)
        const backend = sqliteBackendWith(systemSeams, db)
        await judgeSteps(
          backend,
          grants,
          lines.map((line) => JSON.parse(line) as string),
        )
        await backend.close()
        expect(lastEnd(db), 'the last end of any row').toBeLessThan(
          systemSeams.bootMs() + LONGER_TTL_MS + 1000,
        )
        // What the dead left ends with its time, not before it is looked at: every name can be had.
        const later = { ...systemSeams, bootMs: () => systemSeams.bootMs() + 2 * LONGER_TTL_MS }
        const next = sqliteBackendWith(later, db)
        for (const name of STEPS) {
          const result = await next.tryAcquire(stepRequest(name, 'last'))
          expect(result.kind, `${name}, after its time`).toBe('granted')
          const before = grants[name]?.fencingToken ?? 0n
          if (result.kind === 'granted') expect(result.grant.fencingToken).toBeGreaterThan(before)
        }
        await next.close()
      } finally {
        db.close()
      }
    }

    /** Runs the program once for each point until it lives to its end. */
    async function killAtEachPoint(
      run: (point: number) => Promise<'killed' | 'done'>,
    ): Promise<number> {
      let next = 1
      let kills = 0
      let isOver = false
      const lane = async (): Promise<void> => {
        while (!isOver && next < POINTS_MAX) {
          if ((await run(next++)) === 'done') isOver = true
          else kills += 1
        }
      }
      // A lane that fails must not leave the other at work in folders that are being removed.
      const stopping = (): Promise<void> =>
        lane().catch((error: unknown) => {
          isOver = true
          throw error
        })
      const ends = await Promise.allSettled(Array.from({ length: LANES }, stopping))
      for (const end of ends) if (end.status === 'rejected') throw end.reason
      expect(isOver, 'the program ran to its end once').toBe(true)
      return kills
    }

    // B017: what several steps do one after the other, a kill leaves half done, and for ever.
    // A process can die between any two of its statements, inside a transaction too.
    it('has done each step as a whole or not at all, at every statement', async () => {
      const kills = await killAtEachPoint((point) =>
        runSteps(root, `statement-${point}`, killedBefore(point), {}),
      )
      // Each step has a statement at least, besides BEGIN and COMMIT.
      expect(kills).toBeGreaterThan(STEPS.length * 3)
    }, 300_000)

    it.skipIf(whyNot !== null)(
      'has done each step as a whole or not at all, at every call that changes the file',
      async () => {
        const disks: Disk[] = Array.from({ length: LANES }, () => openDisk({ logs: false }))
        try {
          const free = [...disks]
          const kills = await killAtEachPoint(async (point) => {
            const disk = free.pop() as Disk
            // Half of a write is done first: a call of the kernel is not one step either.
            disk.set({ mask: CALL.write | CALL.truncate | CALL.sync, killAt: point, torn: 1 })
            const end = runSteps(disk.folder, `call-${point}`, undefined, disk.env)
            return end.finally(() => free.push(disk))
          })
          expect(kills).toBeGreaterThan(STEPS.length * 2)
        } finally {
          for (const disk of disks) disk.remove()
        }
      },
      300_000,
    )
  },
)

/** Of all tables that hold rows for a time, on the clock of the boot. */
function lastEnd(db: SqliteDatabase): number {
  const ends = ['locks', 'queue', 'cancelled'].map((table) => {
    const row = db.prepare(`SELECT max(ends_at_ms) AS end FROM holdfast_${table}`).get()
    return Number((row as { end: number | null }).end ?? 0)
  })
  return Math.max(...ends)
}
