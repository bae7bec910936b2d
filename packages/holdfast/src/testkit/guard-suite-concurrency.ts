/** Several processes at once: the fence only rises, and no write of the newest holder is lost. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { setImmediate } from 'node:timers/promises'
import { LockError, StaleTokenError } from '../core/errors.ts'
import {
  fenced,
  type GuardCheck,
  type GuardStore,
  gate,
  type OpenGuard,
  OTHER_OWNER,
  outcome,
} from './guard-suite-harness.ts'

const CONTENDERS = 16
const INCREMENTS_EACH = 8
const ROUNDS = 12

export function testConcurrency<Tx>(check: GuardCheck<Tx>): void {
  // SELECT, then UPDATE: both transactions read the old token, and the smaller writes last.
  check('of many claims at once the largest stays, and the fence never falls', async (store) => {
    const { guard } = store.ours
    const processes = await Promise.all(Array.from({ length: CONTENDERS }, () => store.open({})))
    let isOver = false
    const watched = watchFence(store, () => isOver)
    const settled = await Promise.allSettled(
      processes.flatMap((process, index) =>
        // Rising in some processes, falling in others.
        Array.from({ length: ROUNDS }, (_, round) => {
          const token = BigInt(index % 2 === 0 ? round : ROUNDS - 1 - round) * 100n + BigInt(index)
          return process.guard.claim(fenced(store.lockName, token + 1n))
        }),
      ),
    )
    isOver = true
    const seen = await watched
    deepStrictEqual(seen, [...seen].sort(ascending))
    const largest = BigInt((ROUNDS - 1) * 100 + CONTENDERS)
    strictEqual((await guard.highest(store.lockName))?.fencingToken, largest)
    for (const one of settled) {
      if (one.status === 'rejected') ok(one.reason instanceof StaleTokenError, String(one.reason))
    }
    ok(settled.some(({ status }) => status === 'fulfilled'))
  })

  // No row yet: neither process finds one to lock, and both insert.
  check(
    'the first claims of a resource, made at once, end with the larger token',
    async (store) => {
      for (let round = 0; round < ROUNDS; round++) {
        const resource = `${store.lockName}:${round}`
        const [small, large] = await Promise.allSettled([
          store.ours.guard.claim(fenced(resource, 1n)),
          store.theirs.guard.claim(fenced(resource, 2n, { owner: OTHER_OWNER })),
        ])
        strictEqual(large.status, 'fulfilled')
        if (small.status === 'rejected') ok(small.reason instanceof StaleTokenError)
        strictEqual((await store.ours.guard.highest(resource))?.fencingToken, 2n)
      }
    },
  )

  // Counted in each process, two calls of one lease get one number, and one of two good writes is
  // dropped in silence.
  check(
    'calls of one lease from two processes are all applied, and numbered apart',
    async (store) => {
      const lease = fenced(store.lockName, 5n)
      const sides = [store.ours, store.theirs]
      const seqs = await Promise.all(
        sides.flatMap(({ guard }) =>
          Array.from({ length: ROUNDS }, async () => (await guard.claim(lease)).seq),
        ),
      )
      deepStrictEqual(
        [...seqs].sort(ascending),
        seqs.map((_, index) => BigInt(index + 1)),
      )
      await Promise.all(
        sides.flatMap(({ guard, append }, side) =>
          Array.from({ length: ROUNDS }, (_, round) =>
            guard.transaction(lease, (tx) => append(tx, store.lockName, `${side}:${round}`)),
          ),
        ),
      )
      const written = await store.ours.entries(store.lockName)
      strictEqual(new Set(written).size, sides.length * ROUNDS)
      strictEqual(written.length, sides.length * ROUNDS)
    },
  )

  // A guard on writes alone: the old holder's late write lands between the next one's read and write.
  check('what a transaction reads is not changed under it by an older holder', async (store) => {
    const { ours, theirs, lockName } = store
    const claimed = gate()
    const mayCommit = gate()
    const old = ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
      // By its answer the claim is good, even if fn started before that.
      await ours.entriesIn(tx, lockName)
      claimed.open()
      await mayCommit.opened
      await ours.append(tx, lockName, 'old')
    })
    await claimed.opened
    let seen: readonly string[] | null = null
    const next = theirs.guard.transaction(
      fenced(lockName, 6n, { owner: OTHER_OWNER }),
      async (tx) => {
        seen = await theirs.entriesIn(tx, lockName)
        await theirs.append(tx, lockName, 'next')
      },
    )
    // The next holder's work must not begin before the old one's transaction has ended.
    const early = await Promise.race([next.then(() => 'next'), sleepThen('none')])
    strictEqual(early, 'none')
    strictEqual(seen, null)
    mayCommit.open()
    await old
    await next
    deepStrictEqual(seen, ['old'])
    deepStrictEqual(await ours.entries(lockName), ['old', 'next'])
    let isAnswered = false
    const late = await outcome(
      ours.guard.transaction(fenced(lockName, 5n), async (tx) => {
        await ours.entriesIn(tx, lockName)
        isAnswered = true
      }),
    )
    ok(late.status === 'rejected' && late.reason instanceof StaleTokenError)
    strictEqual(isAnswered, false)
  })

  testIncrements(check)
}

function testIncrements<Tx>(check: GuardCheck<Tx>): void {
  // Read, add one, write, from two processes: under every isolation each write counts on the last.
  check('increments under the guard are never lost, at any isolation', async (store) => {
    for (const isolation of store.isolations) {
      const resource = `${store.lockName}:${isolation}`
      const lease = fenced(resource, 5n)
      const sides = [await store.open({ isolation }), await store.open({ isolation })]
      const done = await Promise.all(sides.map((side) => increment(side, resource, lease)))
      const total = done.reduce((sum, count) => sum + count, 0)
      const expected = Array.from({ length: total }, (_, index) => String(index + 1))
      deepStrictEqual(await store.ours.entries(resource), expected, isolation)
      ok(total > 0, isolation)
    }
  })
}

/** @returns How many increments were acknowledged. */
async function increment<Tx>(
  { guard, append, entriesIn }: OpenGuard<Tx>,
  resource: string,
  lease: ReturnType<typeof fenced>,
): Promise<number> {
  let count = 0
  for (let round = 0; round < INCREMENTS_EACH; round++) {
    const add = async (tx: Tx): Promise<void> => {
      const before = await entriesIn(tx, resource)
      await append(tx, resource, String(before.length + 1))
    }
    const run = await outcome(guard.transaction(lease, add))
    if (run.status === 'fulfilled') count += 1
    // Under contention it may give up, but says so, and then nothing was applied.
    else ok(run.reason instanceof LockError && run.reason.code === 'GUARD_BUSY', String(run.reason))
  }
  return count
}

/** Every value that the fence had, as often as it was looked at. */
async function watchFence<Tx>(store: GuardStore<Tx>, isOver: () => boolean): Promise<bigint[]> {
  const seen: bigint[] = []
  while (!isOver()) {
    const record = await store.theirs.guard.highest(store.lockName)
    if (record !== null) seen.push(record.fencingToken)
    // A store in this process answers at once, and nobody else would have a turn.
    await setImmediate()
  }
  return seen
}

function ascending(left: bigint, right: bigint): number {
  return left < right ? -1 : Number(left > right)
}

const LOOK_MS = 150

function sleepThen<T>(value: T): Promise<T> {
  return new Promise((resolve) => setTimeout(() => resolve(value), LOOK_MS))
}
