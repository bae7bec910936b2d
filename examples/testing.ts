/** Tests of an application: the real engine without a server, and a loss at the push of a button. */
// #region testing
import { equal, rejects } from 'node:assert/strict'
import { test } from 'node:test'
import type { Locks } from 'holdfast'
import { createVirtualClock, fakeLocks, loseLease } from 'holdfast/testkit'

/** The code under test takes its locks as an argument. */
async function report(locks: Locks, write: (signal: AbortSignal) => Promise<void>) {
  return locks.using('report:daily', { waitMs: 0 }, (lease) => write(lease.signal))
}

test('the report is left to whoever writes it already', async () => {
  const locks = fakeLocks()
  await locks.acquire('report:daily')
  await rejects(
    report(locks, async () => {}),
    { code: 'LOCK_HELD' },
  )
  await locks.close()
})

test('the report ends when its lease is lost', async () => {
  const locks = fakeLocks()
  let aborted = false
  locks.on('lost', () => {
    aborted = true
  })
  const writing = locks.using('report:daily', async (lease) => {
    loseLease(lease, 'superseded')
    lease.signal.throwIfAborted()
  })
  await rejects(writing, { code: 'LEASE_LOST', reason: 'superseded' })
  equal(aborted, true)
  await locks.close()
})

test('an hour of work keeps its lease', async () => {
  const clock = createVirtualClock()
  const locks = fakeLocks({ clock })
  const lease = await locks.acquire('report:daily')
  await clock.advance(3_600_000)
  equal(lease.isHeld, true)
  await locks.close()
})
// #endregion
