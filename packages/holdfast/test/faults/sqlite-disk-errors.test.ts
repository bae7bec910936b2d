/** What the kernel answers when a disk breaks, is full, or is another one than it was. */
import { mkdirSync, renameSync, rmSync } from 'node:fs'
import { constants } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { request } from '../../src/testkit/backend-harness.ts'
import { type Children, openChildren } from '../support/child.ts'
import { CALL, type Disk, openDisk, whyNoDiskShim } from '../support/disk-shim.ts'
import { childDrivers } from '../support/sqlite-child.ts'
import { openRemote, type Remote, wordOf } from '../support/sqlite-remote.ts'

const { EIO, ENOSPC } = constants.errno
/** More than one acquire has of any kind of call. */
const CALLS_MAX = 60
/** Whatever breaks, an attempt is over by then, and not tried for ever. */
const TIMEOUT_MS = 300

const whyNot = whyNoDiskShim()
if (whyNot !== null) console.warn(`left out, disks that break under a lock file: ${whyNot}`)

describe.skipIf(whyNot !== null).each(childDrivers)(
  'a disk under a lock file, with $name,',
  (driver) => {
    let children: Children
    let disk: Disk
    let file: string
    let remote: Remote

    beforeAll(async () => {
      children = await openChildren()
    })

    afterAll(() => children.remove())

    beforeEach(async () => {
      disk = openDisk({ logs: false })
      file = join(disk.folder, 'locks.db')
      // A small log, so that it is taken into the file while things break.
      const settings = ['PRAGMA wal_autocheckpoint = 4']
      remote = await openRemote(children, { file, settings }, disk.env)
    })

    afterEach(async () => {
      remote.child.signal('SIGKILL')
      await remote.child.ended
      disk.remove()
    })

    // Each call of the kernel that an acquire makes fails, once or from then on. Then the disk is well
    // again, and the same request is asked again: by the same connection, which must not be stuck.
    it.each([
      ['a write that fails', CALL.write, EIO, 'BACKEND_UNAVAILABLE down'],
      ['a write to a full disk', CALL.write, ENOSPC, 'BACKEND_UNAVAILABLE out-of-memory'],
      ['a disk that does not keep', CALL.sync, EIO, 'OUTCOME_UNKNOWN'],
      ['a truncation that fails', CALL.truncate, EIO, null],
      ['a file that cannot be read', CALL.read, EIO, 'BACKEND_UNAVAILABLE down'],
      ['a file that cannot be opened', CALL.open, EIO, 'BACKEND_UNAVAILABLE down'],
    ])('is told as an error of a lock, and serves again when it is well: %s', async (...row) => {
      const [, mask, failErrno, expected] = row
      const words = new Set<string>()
      let highest = 0n
      for (const failCount of [1, 1_000_000]) {
        for (let failAt = 1; failAt < CALLS_MAX; failAt++) {
          const asked = request(`${failCount}/${failAt}`, { timeoutMs: TIMEOUT_MS })
          disk.set({ mask, failAt, failCount, failErrno })
          const { word, grant } = await remote.acquire(asked)
          const hasFailed = disk.calls() >= failAt
          words.add(word)
          disk.set({})
          const again = await remote.acquire({ ...asked, timeoutMs: 10_000 })
          expect(again.word, `after ${word} at call ${failAt}`).toBe('granted')
          const token = again.grant?.fencingToken ?? 0n
          // B1: what was granted stays granted; what was not is granted now, and larger.
          if (grant) expect(token).toBe(grant.fencingToken)
          expect(token).toBeGreaterThan(highest)
          highest = token
          if (!hasFailed) break
        }
      }
      const known = ['granted', 'BACKEND_UNAVAILABLE down', 'BACKEND_UNAVAILABLE out-of-memory']
      expect([...known, 'OUTCOME_UNKNOWN']).toEqual(expect.arrayContaining([...words]))
      if (expected !== null) expect([...words]).toContain(expected)
      await remote.call('close')
      const db = driver.open(file)
      expect(db.prepare('PRAGMA integrity_check').get()).toMatchObject({ integrity_check: 'ok' })
      db.close()
    })

    // Locks of a network file system are often only locks of one host, or none.
    it.each([
      ['NFS', 0x6969],
      ['SMB', 0xfe534d42],
      ['CIFS', 0xff534d42],
    ])(
      'is refused when the kernel says that it is a network file system: %s',
      async (name, type) => {
        disk.set({ fsType: type })
        const other = await openRemote(children, { file }, disk.env)
        const told = await other.call('tryAcquire', request('k', { timeoutMs: TIMEOUT_MS }))
        expect(told).toMatchObject({ message: expect.stringMatching(new RegExp(name, 'i')) })
      },
    )

    // Two processes would lock two files by one name, and neither would know.
    it.each(['removed', 'replaced', 'moved with its folder'])(
      'answers nothing any more when its file was %s',
      async (how) => {
        const first = await remote.acquire(request('k'))
        expect(first.word).toBe('granted')
        if (how === 'moved with its folder') {
          renameSync(disk.folder, `${disk.folder}-away`)
          mkdirSync(disk.folder)
        } else {
          for (const end of ['', '-wal', '-shm']) rmSync(file + end, { force: true })
        }
        if (how === 'replaced') {
          const next = await openRemote(children, { file })
          expect((await next.acquire(request('k'))).word).toBe('granted')
        }
        const { word } = await remote.acquire(request('other', { timeoutMs: TIMEOUT_MS }))
        expect(word).toBe('BACKEND_UNAVAILABLE down')
        expect(wordOf(await remote.call('renew', first.grant, 60_000))).toBe(
          'BACKEND_UNAVAILABLE down',
        )
        expect(wordOf(await remote.call('release', first.grant, 0))).toBe(
          'BACKEND_UNAVAILABLE down',
        )
        if (how !== 'moved with its folder') return
        rmSync(disk.folder, { recursive: true })
        renameSync(`${disk.folder}-away`, disk.folder)
        // No transaction was left open meanwhile.
        expect(await remote.call('release', first.grant, 0)).toEqual({ value: 'released' })
        expect((await remote.acquire(request('other'))).word).toBe('granted')
      },
    )
  },
)
