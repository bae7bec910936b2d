/** Cancel: whatever became of an attempt, its owner does not hold the name and never will. */
import { strictEqual } from 'node:assert/strict'
import { randomOwner } from '../core/owner.ts'
import {
  acquired,
  type Check,
  granted,
  isRefused,
  isTaken,
  LONG_MS,
  request,
} from './backend-harness.ts'

export function testCancel(check: Check): void {
  // The cancel came by another connection and was faster: the attempt would be granted to nobody,
  // and the name would be dead for a whole TTL.
  check('an attempt that arrives after its cancel is never granted', async (store) => {
    const { ours, theirs, lockName } = store
    const asked = request(lockName)
    await theirs.cancel(lockName, asked.owner)
    for (const side of [ours, theirs, ours]) strictEqual(await isRefused(side, asked), true)
    strictEqual(await ours.inspect(lockName), null)
    strictEqual(await isTaken(theirs, lockName), false)
  })

  // The grant's answer was lost; then the client sends the request once more by itself.
  check('a cancel ends the grant, and the same attempt is not granted again', async (store) => {
    const { ours, theirs, lockName } = store
    const asked = request(lockName)
    const grant = granted(await ours.tryAcquire(asked))
    await ours.cancel(lockName, asked.owner)
    strictEqual(await theirs.inspect(lockName), null)
    strictEqual(await isRefused(ours, asked), true)
    strictEqual((await ours.renew(grant, LONG_MS)).kind, 'lost')
    strictEqual(await ours.release(grant, 0), 'not-held')
    const next = await acquired(theirs, lockName)
    await ours.cancel(lockName, asked.owner)
    strictEqual((await theirs.inspect(lockName))?.fencingToken, next.fencingToken)
  })

  // Cancels are repeated until they are confirmed.
  check('cancelling again changes nothing', async ({ ours, theirs, lockName }) => {
    const asked = request(lockName)
    await ours.tryAcquire(asked)
    for (const side of [ours, ours, theirs]) await side.cancel(lockName, asked.owner)
    strictEqual(await isRefused(ours, asked), true)
    strictEqual(await isTaken(ours, lockName), false)
  })

  // A clean-up that forgets to ask whose entry it is frees the lock of the next holder.
  check('a cancel of another owner leaves the holder alone', async ({ ours, theirs, lockName }) => {
    const grant = await acquired(ours, lockName)
    for (const side of [ours, theirs]) await side.cancel(lockName, randomOwner())
    strictEqual(await isTaken(theirs, lockName), true)
    strictEqual((await ours.inspect(lockName))?.fencingToken, grant.fencingToken)
    strictEqual(await ours.release(grant, 0), 'released')
  })

  // An owner is one attempt on one name; the cancel of it must not reach into another name.
  check('a cancel ends nothing under another name', async ({ ours, theirs, lockName }) => {
    const grant = await acquired(ours, `${lockName}:a`)
    await theirs.cancel(`${lockName}:b`, grant.owner)
    strictEqual((await ours.inspect(`${lockName}:a`))?.fencingToken, grant.fencingToken)
    strictEqual(await ours.release(grant, 0), 'released')
  })

  // Attempt and cancel leave at the same time by two connections: either may be first.
  check('an attempt and its cancel at the same time leave no entry', async (store) => {
    const { ours, theirs, lockName } = store
    for (let round = 0; round < 20; round++) {
      const asked = request(`${lockName}:${round}`)
      const cancel = (): Promise<void> => theirs.cancel(asked.lockName, asked.owner)
      const attempt = (): Promise<boolean> => isRefused(ours, asked)
      const both = round % 2 === 0 ? [attempt(), cancel()] : [cancel(), attempt()]
      await Promise.all(both)
      strictEqual(await theirs.inspect(asked.lockName), null)
      strictEqual(await isRefused(ours, asked), true)
      strictEqual(await isTaken(theirs, asked.lockName), false)
    }
  })
}
