/** A holder that stands still inside its transaction, and those who wait for the row it keeps. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fenced } from '../core/backend.ts'
import { monotonicMs } from '../core/clock.ts'
import { GuardBusyError, LeaseLostError, OutcomeUnknownError } from '../core/errors.ts'
import {
  fenced,
  type GuardCheck,
  type GuardStore,
  gate,
  leaseFor,
  OTHER_OWNER,
  outcome,
  told,
} from './guard-suite-harness.ts'

const VALID_MS = 400
/** Where nothing is to be cut: a machine that stands still for less than this changes no result. */
const PATIENT_MS = 3000
const STEP_MS = 20
/** Ends a loop that nobody else ends: 15 seconds. */
const STEPS_MAX = 750

export function testPauses<Tx>(check: GuardCheck<Tx>): void {
  // SIGSTOP, a long collection of garbage, a suspended machine: no timer of the process runs, and the
  // row stays locked by a transaction that nobody will end.
  check(
    'a holder that stands still inside keeps the next waiting for its validity at most',
    async (store) => {
      const { ours, lockName } = store
      const lease = leaseFor(fenced(lockName, 5n), VALID_MS, true)
      const inside = gate()
      const wakesUp = gate()
      const paused = outcome(
        ours.guard.transaction(lease, async (tx) => {
          await ours.append(tx, lockName, 'late')
          inside.open()
          await wakesUp.opened
        }),
      )
      await inside.opened
      await nextHolder(store)
      wakesUp.open()
      const settled = await paused
      ok(settled.status === 'rejected' && settled.reason instanceof LeaseLostError, told(settled))
      deepStrictEqual(await ours.entries(lockName), ['next'])
    },
  )

  // Ten statements of 200 ms each held the row for two seconds: every one was within its time-out.
  check('a holder that works on after its lease ended keeps nobody waiting', async (store) => {
    const { ours, lockName } = store
    const lease = leaseFor(fenced(lockName, 5n), VALID_MS)
    const inside = gate()
    let isNextDone = false
    const working = outcome(
      ours.guard.transaction(lease, async (tx) => {
        await ours.append(tx, lockName, 'late')
        inside.open()
        for (let step = 0; step < STEPS_MAX && !isNextDone; step++) {
          await ours.entriesIn(tx, lockName)
          await sleep(STEP_MS)
        }
      }),
    )
    await inside.opened
    await nextHolder(store)
    isNextDone = true
    const settled = await working
    ok(settled.status === 'rejected' && settled.reason instanceof LeaseLostError, told(settled))
    deepStrictEqual(await ours.entries(lockName), ['next'])
  })

  // Nothing is known of a plain holder's validity, so the guard's own bound stands in for it.
  check('a plain holder that stands still is cut at the time-out of the guard', async (store) => {
    const { lockName } = store
    const bounded = await store.open({ timeoutMs: VALID_MS })
    const inside = gate()
    const wakesUp = gate()
    const paused = outcome(
      bounded.guard.transaction(fenced(lockName, 5n), async (tx) => {
        await bounded.append(tx, lockName, 'late')
        inside.open()
        await wakesUp.opened
      }),
    )
    await inside.opened
    await nextHolder(store)
    wakesUp.open()
    const settled = await paused
    ok(settled.status === 'rejected', told(settled))
    const { reason } = settled
    // A driver that keeps the server's words to itself may send COMMIT into the end of the connection.
    // The record has the next holder's token by then, and does not tell.
    ok(reason instanceof GuardBusyError || reason instanceof OutcomeUnknownError, told(settled))
    deepStrictEqual(await store.ours.entries(lockName), ['next'])
  })

  // Bounds that follow from the validity at the beginning must not end work whose lease goes on.
  check('many short steps may last as long as their lease is renewed', async (store) => {
    const { ours, lockName } = store
    const lease = leaseFor(fenced(lockName, 5n), PATIENT_MS)
    const beganAtMs = monotonicMs()
    let steps = 0
    await ours.guard.transaction(lease, async (tx) => {
      while (monotonicMs() - beganAtMs < 1.5 * PATIENT_MS) {
        await ours.append(tx, lockName, String(steps++))
        await lease.renew(2 * PATIENT_MS)
        await sleep(STEP_MS)
      }
    })
    strictEqual((await ours.entries(lockName)).length, steps)
    await lease.release()
  })

  testBusyRows(check)
}

function testBusyRows<Tx>(check: GuardCheck<Tx>): void {
  check(
    'who waits for a row that stays locked is told in time, and nothing is applied',
    async (store) => {
      const { ours, lockName } = store
      const own = await ours.begin()
      await ours.guard.claim(fenced(lockName, 5n), own.tx)
      const bounded = await store.open({ timeoutMs: VALID_MS })
      const plain = fenced(lockName, 6n, { owner: OTHER_OWNER })
      const callers: readonly [Fenced, typeof GuardBusyError | typeof LeaseLostError][] = [
        [plain, GuardBusyError],
        [leaseFor(plain, VALID_MS, true), LeaseLostError],
        [leaseFor(plain, VALID_MS), LeaseLostError],
      ]
      let answers = 0
      for (const [caller, expected] of callers) {
        const work = async (tx: Tx): Promise<void> => {
          await bounded.entriesIn(tx, lockName)
          answers += 1
        }
        await rejects(bounded.guard.transaction(caller, work), expected)
        await rejects(bounded.guard.claim(plain), GuardBusyError)
      }
      strictEqual(answers, 0)
      await own.commit()
      strictEqual((await ours.guard.highest(lockName))?.fencingToken, 5n)
      deepStrictEqual(await bounded.guard.claim(plain), { seq: 1n })
    },
  )

  // Two calls of one lease at once would leave the row showing only the later one.
  check(
    'calls of one lease run one after the other, in the order of their asking',
    async (store) => {
      const { ours, lockName } = store
      const lease = fenced(lockName, 5n)
      let inside = 0
      const call = (index: number): Promise<void> =>
        ours.guard.transaction(lease, async (tx) => {
          inside += 1
          strictEqual(inside, 1)
          await sleep(1)
          await ours.append(tx, lockName, String(index))
          inside -= 1
        })
      const order = Array.from({ length: 24 }, (_, index) => index)
      await Promise.all(order.map(call))
      deepStrictEqual(await ours.entries(lockName), order.map(String))
    },
  )
}

/** Takes over while the old holder is still inside. Its own bound is the guard's default. */
async function nextHolder<Tx>({ theirs, lockName }: GuardStore<Tx>): Promise<void> {
  await theirs.guard.transaction(fenced(lockName, 6n, { owner: OTHER_OWNER }), (tx) =>
    theirs.append(tx, lockName, 'next'),
  )
}
