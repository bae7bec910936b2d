/** The column form when the network loses, keeps back or repeats what was sent. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { BackendUnavailableError, OutcomeUnknownError } from '../core/errors.ts'
import { type ColumnStore, columnChecksOf } from './guard-suite-columns.ts'
import {
  type ColumnForm,
  delayRequest,
  type Fault,
  fenced,
  type GuardCheck,
  loseAnswer,
  loseRequest,
  NO_NETWORK,
  OTHER_OWNER,
  outcome,
  type Proxied,
  until,
} from './guard-suite-harness.ts'
import type { ProxyConnection } from './proxy.ts'

const SHORT_MS = 500
/** For what must not come: a write takes a millisecond. */
const SILENCE_MS = 300

/** The name of the call that meets the fault. Names travel as text. */
const OP = 'the-write-that-meets-the-fault'

export function testColumnFaults<Tx>(check: GuardCheck<Tx>): void {
  const columns = columnChecksOf(check)
  for (const touch of ['first', 'second'] as const) {
    // Telling the caller that it failed makes it write again, over what came since.
    columns(
      `an answer lost after the ${touch} write of a lease is settled`,
      async (store, skip) => {
        const scene = await play(store, touch, loseAnswer)
        if (scene === null) return skip(NO_NETWORK)
        await isWritten(store)
        scene.connection.resetClient()
        deepStrictEqual(await scene.settled, { status: 'fulfilled', value: 'applied' })
        await once(store)
      },
    )

    columns(`the ${touch} write lost on its way is applied after all`, async (store, skip) => {
      const scene = await play(store, touch, loseRequest)
      if (scene === null) return skip(NO_NETWORK)
      scene.connection.resetClient()
      deepStrictEqual(await scene.settled, { status: 'fulfilled', value: 'applied' })
      await once(store)
    })

    // Nothing on the server shows a statement that is still on its way.
    columns(
      `the ${touch} write that arrives after its sender has gone is applied once`,
      async (store, skip) => {
        const scene = await play(store, touch, delayRequest)
        if (scene === null) return skip(NO_NETWORK)
        scene.connection.resetClient()
        deepStrictEqual(await scene.settled, { status: 'fulfilled', value: 'applied' })
        scene.connection.letGo('toServer')
        await sleep(SILENCE_MS)
        await once(store)
      },
    )

    // It would put an old value of the holder's own over its newest one.
    columns(
      `the ${touch} write that arrives after a later one of its lease is not applied over it`,
      async (store, skip) => {
        const scene = await play(store, touch, delayRequest)
        if (scene === null) return skip(NO_NETWORK)
        scene.connection.resetClient()
        await scene.settled
        strictEqual(await scene.rows.update(lease(store), store.row, 'later'), 'applied')
        scene.connection.letGo('toServer')
        await sleep(SILENCE_MS)
        deepStrictEqual((await own(store)).slice(-2), ['work', 'later'])
      },
    )
  }
  testUnknown(columns)
  testOtherLosses(columns)
}

function testUnknown<Tx>(columns: ReturnType<typeof columnChecksOf<Tx>>): void {
  // Ours may have been before the later call, or never: writing again would undo that one.
  columns('a later call of the same lease leaves the outcome unknown', async (store, skip) => {
    const scene = await play(store, 'second', loseAnswer)
    if (scene === null) return skip(NO_NETWORK)
    await isWritten(store)
    await store.theirRows.update(lease(store), store.row, 'later')
    scene.connection.resetClient()
    await isUnknown(scene)
    deepStrictEqual(await own(store), ['before', 'work', 'later'])
  })

  columns('a write of the next holder leaves the outcome unknown', async (store, skip) => {
    const scene = await play(store, 'first', delayRequest)
    if (scene === null) return skip(NO_NETWORK)
    const next = fenced(store.row, 6n, { owner: OTHER_OWNER })
    await store.theirRows.update(next, store.row, 'next')
    scene.connection.resetClient()
    await isUnknown(scene)
    scene.connection.letGo('toServer')
    await sleep(SILENCE_MS)
    deepStrictEqual(await own(store), ['next'])
  })

  columns('a store that cannot be reached afterwards leaves it unknown', async (store, skip) => {
    const scene = await play(store, 'first', loseAnswer, SHORT_MS)
    if (scene === null) return skip(NO_NETWORK)
    await isWritten(store)
    scene.side.proxy.isRefusing = true
    scene.connection.resetClient()
    await isUnknown(scene)
    await once(store)
  })
}

function testOtherLosses<Tx>(columns: ReturnType<typeof columnChecksOf<Tx>>): void {
  columns('a store that never answers is given up in time', async (store, skip) => {
    const side = await store.behindProxy({ timeoutMs: SHORT_MS })
    if (side === null) return skip(NO_NETWORK)
    const rows = side.column as ColumnForm<Tx>
    await rows.update(lease(store), store.row, 'before')
    side.proxy.drop('toServer')
    side.proxy.drop('toClient')
    const settled = await outcome(rows.update(lease(store), store.row, 'lost'))
    ok(settled.status === 'rejected' && settled.reason instanceof OutcomeUnknownError)
    side.proxy.heal()
    side.proxy.reset()
    await until(
      async () =>
        (await outcome(rows.update(lease(store), store.row, 'after'))).status === 'fulfilled',
      'a write after the network came back',
    )
    deepStrictEqual(await own(store), ['before', 'after'])
  })

  columns('a store that refuses connections is unavailable', async (store, skip) => {
    const side = await store.behindProxy()
    if (side === null) return skip(NO_NETWORK)
    side.proxy.isRefusing = true
    const rows = side.column as ColumnForm<Tx>
    const settled = await outcome(rows.update(lease(store), store.row, 'never'))
    ok(settled.status === 'rejected' && settled.reason instanceof BackendUnavailableError)
    deepStrictEqual(await own(store), [])
  })
}

interface Scene<Tx> {
  readonly side: Proxied<Tx>
  readonly rows: ColumnForm<Tx>
  /** The connection whose write met the fault. */
  readonly connection: ProxyConnection
  readonly settled: Promise<PromiseSettledResult<string>>
}

const lease = <Tx>({ row }: ColumnStore<Tx>): ReturnType<typeof fenced> => fenced(row, 5n)

const own = <Tx>({ ourRows, row }: ColumnStore<Tx>): Promise<readonly string[]> =>
  ourRows.history(row)

/** Sends a write that meets `fault`. */
async function play<Tx>(
  store: ColumnStore<Tx>,
  touch: 'first' | 'second',
  fault: Fault,
  timeoutMs?: number,
): Promise<Scene<Tx> | null> {
  const side = await store.behindProxy(timeoutMs === undefined ? {} : { timeoutMs })
  if (side === null) return null
  const rows = side.column as ColumnForm<Tx>
  if (touch === 'second') await rows.update(lease(store), store.row, 'before')
  let met: ProxyConnection | null = null
  side.proxy.onBytes = (direction, bytes, connection) => {
    if (met !== null || direction !== 'toServer' || !Buffer.from(bytes).includes(OP)) return
    met = connection
    fault(connection)
  }
  const settled = outcome(rows.update(lease(store), store.row, 'work', { op: OP }))
  await until(() => met !== null, 'the write passes the proxy')
  return { side, rows, connection: met as never, settled }
}

/** The store has applied it, whoever knows. */
async function isWritten<Tx>(store: ColumnStore<Tx>): Promise<void> {
  await until(async () => (await own(store)).includes('work'), 'the write is committed')
}

async function once<Tx>(store: ColumnStore<Tx>): Promise<void> {
  const values = (await own(store)).filter((value) => value !== 'before')
  deepStrictEqual(values, ['work'])
}

async function isUnknown<Tx>({ settled }: Scene<Tx>): Promise<void> {
  const one = await settled
  ok(one.status === 'rejected' && one.reason instanceof OutcomeUnknownError, JSON.stringify(one))
}
