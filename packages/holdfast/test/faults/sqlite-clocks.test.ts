/** Wall clocks that step under processes that share a lock file. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import {
  type ClockShim,
  makeClockShim,
  whyNoClockShim,
} from '../../../cli/src/lab/servers/index.ts'
import { request } from '../../src/testkit/backend-harness.ts'
import { type Children, openChildren } from '../support/child.ts'
import { childDrivers } from '../support/sqlite-child.ts'
import { openRemote, type Remote } from '../support/sqlite-remote.ts'

const HOUR_MS = 3_600_000

const whyNot = whyNoClockShim()
if (whyNot !== null) console.warn(`left out, wall clocks that step beside a lock file: ${whyNot}`)

describe.skipIf(whyNot !== null).each(childDrivers)(
  'a lock file of $name, while the wall clock of one process',
  () => {
    let children: Children
    let root: string
    let clock: ClockShim
    let stepping: Remote
    let steady: Remote

    beforeAll(async () => {
      children = await openChildren()
    })

    afterAll(() => children.remove())

    beforeEach(async () => {
      root = mkdtempSync(join(tmpdir(), 'holdfast-clocks-'))
      clock = makeClockShim()
      const head = { file: join(root, 'locks.db') }
      stepping = await openRemote(children, head, clock.env)
      steady = await openRemote(children, head)
    })

    afterEach(async () => {
      for (const { child } of [stepping, steady]) {
        child.signal('SIGKILL')
        await child.ended
      }
      clock.remove()
      rmSync(root, { recursive: true, force: true })
    })

    // B062: where expiry follows the wall clock, a step ends every lock at once, or none for an hour. B086: two
    // programs whose wall clocks differ take each other's locks.
    it.each([
      ['forward', HOUR_MS],
      ['back', -HOUR_MS],
    ])(
      'steps %s an hour, keeps each lock for its time, no longer, and tokens rise',
      async (...row) => {
        const [, offsetMs] = row
        const before = await steady.acquire(request('held'))
        const short = await steady.acquire(request('short', { ttlMs: 1500 }))
        clock.setOffset(offsetMs)
        expect((await stepping.acquire(request('held'))).word).toBe('held')
        const mine = await stepping.acquire(request('mine'))
        expect(mine.grant?.fencingToken).toBeGreaterThan(before.grant?.fencingToken ?? 0n)
        // And the other way round: granted by the stepped clock, looked at by the steady one.
        expect((await steady.acquire(request('mine'))).word).toBe('held')
        const untilMs = performance.now() + 20_000
        let next = await stepping.acquire(request('short'))
        while (next.word === 'held' && performance.now() < untilMs) {
          await sleep(20)
          next = await stepping.acquire(request('short'))
        }
        expect(next.word).toBe('granted')
        expect(next.grant?.fencingToken).toBeGreaterThan(short.grant?.fencingToken ?? 0n)
        clock.setOffset(0)
        expect(await stepping.call('release', mine.grant, 0)).toEqual({ value: 'released' })
        const after = await steady.acquire(request('mine'))
        expect(after.grant?.fencingToken).toBeGreaterThan(next.grant?.fencingToken ?? 0n)
      },
    )
  },
)
