/** COMMIT was sent, and its answer never came. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { BackendUnavailableError, GuardBusyError, OutcomeUnknownError } from '../core/errors.ts'
import {
  delayRequest,
  type Fault,
  fenced,
  type GuardCheck,
  type GuardStore,
  loseAnswer,
  loseRequest,
  NO_NETWORK,
  OTHER_OWNER,
  outcome,
  type Proxied,
  told,
  until,
} from './guard-suite-harness.ts'
import type { ProxyConnection } from './proxy.ts'

/** Time-outs short enough to wait for: the server ends what a lost COMMIT left open. Milliseconds. */
const SHORT_MS = 500
/** How much later a COMMIT that was kept back arrives, well within the default time-outs. */
const LATE_MS = 400

export function testCommit<Tx>(check: GuardCheck<Tx>): void {
  for (const touch of ['first', 'second'] as const) {
    // Telling the caller that it failed makes it run the work again, which applies it twice.
    check(
      `an answer lost after the ${touch} COMMIT of a lease is settled as committed`,
      async (store, skip) => {
        const scene = await play(store, touch, loseAnswer)
        if (scene === null) return skip(NO_NETWORK)
        await isCommitted(store)
        scene.connection.resetClient()
        const settled = await scene.settled
        deepStrictEqual(settled, { status: 'fulfilled', value: 'result' })
        await once(store, scene)
      },
    )

    check(`the ${touch} COMMIT lost on its way is settled as not applied`, async (store, skip) => {
      const scene = await play(store, touch, loseRequest, SHORT_MS)
      if (scene === null) return skip(NO_NETWORK)
      scene.connection.resetClient()
      const settled = await scene.settled
      ok(settled.status === 'rejected')
      ok(settled.reason instanceof BackendUnavailableError, String(settled.reason))
      strictEqual(scene.runs(), 1)
      deepStrictEqual(await store.ours.entries(store.lockName), [])
    })

    // Looking at once finds no row of an insertion that is not committed yet, and none that is locked.
    check(
      `the ${touch} COMMIT that arrives after its sender has gone is waited for`,
      async (store, skip) => {
        const scene = await play(store, touch, delayRequest)
        if (scene === null) return skip(NO_NETWORK)
        scene.connection.resetClient()
        await sleep(LATE_MS)
        scene.connection.letGo('toServer')
        deepStrictEqual(await scene.settled, { status: 'fulfilled', value: 'result' })
        await once(store, scene)
      },
    )
  }

  testUnknown(check)
  testOtherLosses(check)
}

function testUnknown<Tx>(check: GuardCheck<Tx>): void {
  // The row shows a later call of this lease: ours may have been before it, or never. Running the
  // work again here applied it twice.
  check('a later call of the same lease leaves the outcome unknown', async (store, skip) => {
    const scene = await play(store, 'first', loseAnswer)
    if (scene === null) return skip(NO_NETWORK)
    const { theirs, lockName } = store
    await isCommitted(store)
    await theirs.guard.transaction(LEASE(lockName), (tx) => theirs.append(tx, lockName, 'later'))
    scene.connection.resetClient()
    await isUnknown(scene)
    deepStrictEqual(await theirs.entries(lockName), ['work', 'later'])
    strictEqual(scene.runs(), 1)
  })

  check(
    'a claim of the next holder leaves the outcome unknown, applied or not',
    async (store, skip) => {
      for (const [fault, applied] of [
        [loseAnswer, ['work']] as const,
        [loseRequest, []] as const,
      ]) {
        const lockName = `${store.lockName}:${applied.length}`
        const scene = await play({ ...store, lockName }, 'first', fault, SHORT_MS)
        if (scene === null) return skip(NO_NETWORK)
        if (applied.length > 0) await isCommitted({ ...store, lockName })
        await store.theirs.guard.claim(fenced(lockName, 6n, { owner: OTHER_OWNER }))
        scene.connection.resetClient()
        const settled = await scene.settled
        ok(settled.status === 'rejected')
        // A store that cut the transaction before it saw the COMMIT may have said so.
        const isTold = applied.length === 0 && settled.reason instanceof GuardBusyError
        ok(isTold || settled.reason instanceof OutcomeUnknownError, told(settled))
        deepStrictEqual(await store.theirs.entries(lockName), applied)
      }
    },
  )

  check(
    'a store that cannot be reached afterwards leaves the outcome unknown',
    async (store, skip) => {
      const scene = await play(store, 'first', loseAnswer, SHORT_MS)
      if (scene === null) return skip(NO_NETWORK)
      await isCommitted(store)
      scene.side.proxy.isRefusing = true
      scene.connection.resetClient()
      await isUnknown(scene)
      await once(store, scene)
    },
  )
}

function testOtherLosses<Tx>(check: GuardCheck<Tx>): void {
  check('a connection lost before COMMIT applied nothing, and says so', async (store, skip) => {
    const side = await store.behindProxy()
    if (side === null) return skip(NO_NETWORK)
    const { lockName } = store
    const run = side.guard.transaction(LEASE(lockName), async (tx) => {
      await side.append(tx, lockName, 'never')
      side.proxy.reset()
      await side.append(tx, lockName, 'never')
    })
    const settled = await outcome(run)
    ok(settled.status === 'rejected' && settled.reason instanceof BackendUnavailableError)
    deepStrictEqual(await store.ours.entries(lockName), [])
    // The pool lends another connection.
    deepStrictEqual(await side.guard.claim(LEASE(lockName)), { seq: 1n })
  })

  check('a store that never answers is given up in time', async (store, skip) => {
    const side = await store.behindProxy({ timeoutMs: SHORT_MS })
    if (side === null) return skip(NO_NETWORK)
    await side.guard.claim(LEASE(store.lockName))
    side.proxy.drop('toServer')
    side.proxy.drop('toClient')
    for (let round = 0; round < 2; round++) {
      const settled = await outcome(side.guard.claim(LEASE(store.lockName)))
      ok(settled.status === 'rejected' && settled.reason instanceof BackendUnavailableError)
    }
    side.proxy.heal()
    side.proxy.reset()
    await until(
      async () => (await outcome(side.guard.claim(LEASE(store.lockName)))).status === 'fulfilled',
      'a claim after the network came back',
    )
  })

  check(
    'a store that refuses connections is unavailable, and nothing is applied',
    async (store, skip) => {
      const side = await store.behindProxy()
      if (side === null) return skip(NO_NETWORK)
      side.proxy.isRefusing = true
      const settled = await outcome(side.guard.transaction(LEASE(store.lockName), async () => 1))
      ok(settled.status === 'rejected' && settled.reason instanceof BackendUnavailableError)
      strictEqual(settled.reason.why, 'down')
      strictEqual(await store.ours.guard.highest(store.lockName), null)
    },
  )
}

const LEASE = (lockName: string): ReturnType<typeof fenced> => fenced(lockName, 5n)

interface Scene<Tx> {
  readonly side: Proxied<Tx>
  /** The connection whose COMMIT met the fault. */
  readonly connection: ProxyConnection
  readonly settled: Promise<PromiseSettledResult<string>>
  runs(): number
}

/** Runs a transaction up to its COMMIT, which meets `fault`. */
async function play<Tx>(
  store: GuardStore<Tx>,
  touch: 'first' | 'second',
  fault: Fault,
  timeoutMs?: number,
): Promise<Scene<Tx> | null> {
  const side = await store.behindProxy(timeoutMs === undefined ? {} : { timeoutMs })
  if (side === null) return null
  const { lockName } = store
  if (touch === 'second') await side.guard.claim(LEASE(lockName))
  let met: ProxyConnection | null = null
  side.proxy.onBytes = (direction, bytes, connection) => {
    if (met !== null || direction !== 'toServer' || !store.isCommit(bytes)) return
    met = connection
    fault(connection)
  }
  let runs = 0
  const settled = outcome(
    side.guard.transaction(LEASE(lockName), async (tx) => {
      runs += 1
      await side.append(tx, lockName, 'work')
      return 'result'
    }),
  )
  await until(() => met !== null, 'COMMIT passes the proxy')
  return { side, connection: met as never, settled, runs: () => runs }
}

/** The store has applied it, whoever knows. */
async function isCommitted<Tx>({ ours, lockName }: GuardStore<Tx>): Promise<void> {
  await until(async () => (await ours.entries(lockName)).length > 0, 'the transaction is committed')
}

async function once<Tx>(store: GuardStore<Tx>, scene: Scene<Tx>): Promise<void> {
  strictEqual(scene.runs(), 1)
  deepStrictEqual(await store.ours.entries(store.lockName), ['work'])
}

async function isUnknown<Tx>({ settled }: Scene<Tx>): Promise<void> {
  const { status, ...rest } = await settled
  strictEqual(status, 'rejected')
  const { reason } = rest as PromiseRejectedResult
  ok(reason instanceof OutcomeUnknownError, String(reason))
}
