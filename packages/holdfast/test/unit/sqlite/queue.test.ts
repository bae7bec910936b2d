import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { acquired, request } from '../../../src/testkit/backend-harness.ts'
import { sqliteDrivers } from '../../support/sqlite-drivers.ts'
import { LockFile } from '../../support/sqlite-locks.ts'

/** More than are looked at together. */
const DEAD = 150

describe.each(sqliteDrivers())('a queue of many dead, with $name,', (driver) => {
  let file: LockFile

  beforeEach(() => {
    file = new LockFile(driver)
  })

  afterEach(() => file.close())

  const living = { waits: true, waiter: 'living' }

  async function queueOfDead() {
    const [ours, theirs] = [file.backend(), file.backend()]
    const grant = await acquired(ours, 'k')
    const db = file.database()
    const put = db.prepare(`INSERT INTO holdfast_queue
      (lock_name, waiter, pid, started_at, pid_namespace, ends_at_ms) VALUES ('k', ?, 1, '1', '', 1)`)
    for (let index = 0; index < DEAD; index++) put.run(`dead ${index}`)
    return { ours, theirs, grant }
  }

  // A pool of a hundred processes that is killed at once: whoever came then was granted what others waited for.
  it('keeps the name for the one that lives behind them', async () => {
    const { ours, theirs, grant } = await queueOfDead()
    expect((await theirs.tryAcquire(request('k', living))).kind).toBe('held')
    await ours.release(grant, 0)
    expect((await ours.tryAcquire(request('k'))).kind).toBe('held')
    expect((await theirs.tryAcquire(request('k', living))).kind).toBe('granted')
    expect(file.rows('queue')).toEqual([])
  })

  it('lets it through at a hand-over, and keeps nobody out when none lives', async () => {
    const { ours, theirs, grant } = await queueOfDead()
    await theirs.tryAcquire(request('k', living))
    const next = request('k', { waits: true, waiter: 'next' })
    expect((await ours.handOver?.(grant, next, false))?.kind).toBe('freed')
    await theirs.stopWaiting?.('k', living.waiter)
    expect((await ours.tryAcquire(request('k'))).kind).toBe('granted')
  })
})
