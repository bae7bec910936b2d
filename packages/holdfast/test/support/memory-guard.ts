/** Guards on one store in memory, as the suite wants them. */
import { systemSeams } from '../../src/core/seams.ts'
import { memoryGuardWith } from '../../src/guards/memory/guard.ts'
import {
  type MemoryStore,
  type MemoryTransaction,
  memoryStore,
} from '../../src/guards/memory/store.ts'
import type {
  GuardHarness,
  GuardRequest,
  OpenGuard,
  OwnTransaction,
} from '../../src/testkit/guard-suite-harness.ts'
import { gate, outcome } from '../../src/testkit/guard-suite-harness.ts'

export function memoryHarness(): GuardHarness<MemoryTransaction> {
  const store = memoryStore()
  return {
    title: 'memory',
    port: () => null,
    isCommit: () => false,
    isolations: ['serial'],
    outlivesFailures: true,
    open: async (request) => open(store, request),
  }
}

function open(
  store: MemoryStore,
  { nonce, timeoutMs, resource }: GuardRequest,
): OpenGuard<MemoryTransaction> {
  const seams = nonce === undefined ? systemSeams : { ...systemSeams, nonce }
  return {
    guard: memoryGuardWith(store, { timeoutMs, resource }, seams),
    async append(tx, resource, entry) {
      tx.set(resource, [...entriesOf(tx.get(resource)), entry])
    },
    entriesIn: async (tx, resource) => entriesOf(tx.get(resource)),
    entries: async (resource) => entriesOf(store.get(resource)),
    fail: async (tx) => tx.set('no copy of it', () => undefined),
    begin: () => begin(store),
    close: async () => undefined,
  }
}

function entriesOf(value: unknown): readonly string[] {
  return (value as readonly string[] | undefined) ?? []
}

/** A transaction that stays open until it is told how to end. */
async function begin(store: MemoryStore): Promise<OwnTransaction<MemoryTransaction>> {
  const ending = gate()
  let isUndone = false
  const undone = new Error('rolled back, as the check asked')
  const whole = new Promise<OwnTransaction<MemoryTransaction>>((resolve, reject) => {
    const ended = outcome(
      store.transaction(async (tx) => {
        resolve({ tx, commit: () => end(false), rollBack: () => end(true) })
        await ending.opened
        if (isUndone) throw undone
      }),
    )
    const end = async (isRolledBack: boolean): Promise<void> => {
      isUndone = isRolledBack
      ending.open()
      const settled = await ended
      if (settled.status === 'rejected' && settled.reason !== undone) throw settled.reason
    }
    ended.then((settled) => {
      if (settled.status === 'rejected') reject(settled.reason)
    })
  })
  return whole
}
