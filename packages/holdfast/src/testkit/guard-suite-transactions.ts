/** A guarded transaction: all of it or nothing, and errors that say which. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import { LeaseLostError, LockError, StaleTokenError } from '../core/errors.ts'
import { fenced, type GuardCheck, leaseFor, OTHER_OWNER, outcome } from './guard-suite-harness.ts'

/** More than any pool of the suite has connections. */
const MANY = 40
/** Long enough for every check on a busy machine. Milliseconds. */
const LONG_MS = 60_000

export function testTransactions<Tx>(check: GuardCheck<Tx>): void {
  check(
    'what fn wrote is committed together with the claim, and its result is given back',
    async (store) => {
      const { ours, lockName } = store
      const result = await ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
        await ours.append(tx, lockName, 'a')
        await ours.append(tx, lockName, 'b')
        return { written: 2 }
      })
      deepStrictEqual(result, { written: 2 })
      deepStrictEqual(await ours.entries(lockName), ['a', 'b'])
      strictEqual((await ours.guard.highest(lockName))?.fencingToken, 5n)
    },
  )

  // A business error turned into an error of the lock library, or a half-written order left behind.
  check('an error of fn reaches the caller as it is, and nothing is applied', async (store) => {
    const { ours, lockName } = store
    const own = new RangeError('not enough left')
    const lease = fenced(lockName, 5n)
    for (let round = 0; round < MANY; round++) {
      const run = ours.guard.transaction(lease, async (tx) => {
        await ours.append(tx, lockName, 'never')
        throw own
      })
      await rejects(run, (error) => error === own)
    }
    deepStrictEqual(await ours.entries(lockName), [])
    strictEqual(await ours.guard.highest(lockName), null)
    // Every connection was given back, or there would be none left by now.
    deepStrictEqual(await ours.guard.claim(lease), { seq: 1n })
  })

  check('an error of a statement in fn reaches the caller as it is', async (store) => {
    const { ours, lockName } = store
    let thrown: unknown
    const run = ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
      await ours.append(tx, lockName, 'never')
      await ours.fail(tx).catch((error) => {
        thrown = error
        throw error
      })
    })
    await rejects(run, (error) => error === thrown && !(error instanceof LockError))
    deepStrictEqual(await ours.entries(lockName), [])
  })

  testSwallowed(check)
  testSuperseded(check)

  // A resend of a call whose result is not known any more must not run the work a second time.
  check('a call that was committed before is not run again', async (store) => {
    const { lockName } = store
    const resent = await store.open({ nonce: () => OTHER_OWNER })
    const once = (): Promise<void> =>
      resent.guard.transaction(fenced(lockName, 5n), (tx) => resent.append(tx, lockName, 'once'))
    await once()
    await rejects(once(), (error) => error instanceof LockError && error.code === 'OUTCOME_UNKNOWN')
    deepStrictEqual(await resent.entries(lockName), ['once'])
  })

  testOwnTransactions(check)
  testLeases(check)
}

function testSwallowed<Tx>(check: GuardCheck<Tx>): void {
  // The database answers COMMIT of a failed transaction with ROLLBACK, which drivers take for success.
  check('a statement that failed in silence makes the transaction fail', async (store, skip) => {
    if (store.outlivesFailures) return skip('a failed statement leaves its transaction whole')
    const { ours, lockName } = store
    const run = ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
      await ours.append(tx, lockName, 'never')
      // The mistake that this check stands for: the error goes nowhere.
      await ours.fail(tx).catch(() => undefined)
      return 'done'
    })
    await rejects(run, LockError)
    deepStrictEqual(await ours.entries(lockName), [])
    strictEqual(await ours.guard.highest(lockName), null)
  })

  check('a statement that failed in silence leaves the rest whole', async (store, skip) => {
    if (!store.outlivesFailures) return skip('a failed statement fails its transaction')
    const { ours, lockName } = store
    const result = await ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
      await ours.append(tx, lockName, 'before')
      await ours.fail(tx).catch(() => undefined)
      await ours.append(tx, lockName, 'after')
      return 'done'
    })
    strictEqual(result, 'done')
    deepStrictEqual(await ours.entries(lockName), ['before', 'after'])
    strictEqual((await ours.guard.highest(lockName))?.fencingToken, 5n)
  })
}

function testSuperseded<Tx>(check: GuardCheck<Tx>): void {
  check('fn does not run for a superseded holder', async (store, skip) => {
    if (store.startsEarly) return skip('the guard starts fn before its claim is decided')
    const { ours, theirs, lockName } = store
    await theirs.guard.claim(fenced(lockName, 6n, { owner: OTHER_OWNER }))
    for (let round = 0; round < MANY; round++) {
      let isRun = false
      const run = ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
        isRun = true
        await ours.append(tx, lockName, 'late')
      })
      await rejects(run, StaleTokenError)
      strictEqual(isRun, false)
    }
    deepStrictEqual(await ours.entries(lockName), [])
  })

  // What it had read would be written, or sent elsewhere, by whoever takes it for the present state.
  check('a superseded holder sees no answer, whatever fn makes of that', async (store) => {
    const { ours, theirs, lockName } = store
    // A connection may be slower the first time.
    await ours.guard.transaction(fenced(lockName, 5n), (tx) => ours.entriesIn(tx, lockName))
    await theirs.guard.claim(fenced(lockName, 6n, { owner: OTHER_OWNER }))
    const seen: unknown[] = []
    const look = (answer: Promise<unknown>): Promise<void> =>
      answer.then(
        (value) => void seen.push(value),
        () => undefined,
      )
    for (let round = 0; round < MANY; round++) {
      const run = ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
        await Promise.all([
          look(ours.entriesIn(tx, lockName)),
          look(ours.append(tx, lockName, 'late')),
        ])
        await look(ours.entriesIn(tx, lockName))
        return 'done'
      })
      await rejects(run, StaleTokenError)
    }
    deepStrictEqual(seen, [])
    deepStrictEqual(await ours.entries(lockName), [])
    strictEqual((await ours.guard.highest(lockName))?.fencingToken, 6n)
  })
}

function testOwnTransactions<Tx>(check: GuardCheck<Tx>): void {
  check('a claim inside a transaction of the user stands or falls with it', async (store) => {
    const { ours, lockName } = store
    const undone = await ours.begin()
    deepStrictEqual(await ours.guard.claim(fenced(lockName, 5n), undone.tx), { seq: 1n })
    await ours.append(undone.tx, lockName, 'undone')
    await undone.rollBack()
    strictEqual(await ours.guard.highest(lockName), null)

    const kept = await ours.begin()
    deepStrictEqual(await ours.guard.claim(fenced(lockName, 4n), kept.tx), { seq: 1n })
    await ours.append(kept.tx, lockName, 'kept')
    await kept.commit()
    strictEqual((await ours.guard.highest(lockName))?.fencingToken, 4n)
    deepStrictEqual(await ours.entries(lockName), ['kept'])
  })

  check('a claim refused there leaves the transaction to the user', async (store) => {
    const { ours, theirs, lockName } = store
    await theirs.guard.claim(fenced(lockName, 6n, { owner: OTHER_OWNER }))
    const own = await ours.begin()
    await rejects(ours.guard.claim(fenced(lockName, 5n), own.tx), StaleTokenError)
    await ours.append(own.tx, `${lockName}:other`, 'still usable')
    await own.commit()
    deepStrictEqual(await ours.entries(`${lockName}:other`), ['still usable'])
    strictEqual((await ours.guard.highest(lockName))?.fencingToken, 6n)
  })
}

function testLeases<Tx>(check: GuardCheck<Tx>): void {
  // The holder that noticed too late must be stopped by what it has in its own hand, too.
  check('a lease that is over is refused before anything is sent', async (store) => {
    const { ours, lockName } = store
    const lease = leaseFor(fenced(lockName, 5n), LONG_MS)
    await lease.release()
    let isRun = false
    const work = async (): Promise<void> => {
      isRun = true
    }
    const calls = [ours.guard.claim(lease), ours.guard.transaction(lease, work)]
    for (const call of [...calls, ours.guard.adopt(lease)]) {
      const settled = await outcome<unknown>(call)
      ok(settled.status === 'rejected' && settled.reason instanceof LeaseLostError)
    }
    strictEqual(isRun, false)
    strictEqual(await ours.guard.highest(lockName), null)
  })

  // COMMIT after the loss may come after the next holder's claim, or before: both are too late.
  check('a lease that ends while fn runs is not committed', async (store) => {
    const { ours, lockName } = store
    const lease = leaseFor(fenced(lockName, 5n), LONG_MS)
    const run = ours.guard.transaction(lease, async (tx) => {
      await ours.append(tx, lockName, 'never')
      await lease.release()
    })
    await rejects(run, LeaseLostError)
    deepStrictEqual(await ours.entries(lockName), [])
    strictEqual(await ours.guard.highest(lockName), null)
  })
}
