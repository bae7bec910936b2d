/** What the guard suite needs to know, and the store that each of its checks is given. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Fenced } from '../core/backend.ts'
import { monotonicMs } from '../core/clock.ts'
import { LeaseLostError } from '../core/errors.ts'
import type { TransactionalGuard } from '../core/guard.ts'
import type { Lease } from '../core/lease.ts'
import { randomOwner } from '../core/owner.ts'
import { TOKEN_MAX } from '../core/token.ts'
import type { TestRunner } from './backend-harness.ts'
import { type FaultProxy, type ProxyConnection, startProxy } from './proxy.ts'

/** What a check asks for when it opens a guard. */
export interface GuardRequest {
  /** The guard's mapping from lock name to record. */
  readonly resource?: (lockName: string) => string
  /** In place of random ids of calls: a call that presents an id again is a resend. */
  readonly nonce?: () => string
  /** Where to connect instead of to the store: a proxy in front of it. */
  readonly port?: number
  /** The bound for a plain `Fenced`, milliseconds. */
  readonly timeoutMs?: number
  /** One of the harness's isolations. */
  readonly isolation?: string
}

/** A transaction that the guard did not begin. */
export interface OwnTransaction<Tx> {
  readonly tx: Tx
  commit(): Promise<void>
  rollBack(): Promise<void>
}

/** Rows that carry the fence themselves, each with one text, in a store whose guard has that form. */
export interface ColumnForm<Tx> {
  /** Adds a row that nobody has written through the guard. */
  add(row: string): Promise<void>
  update(
    lease: Fenced,
    row: string,
    value: string,
    how?: Readonly<{ op?: string; tx?: Tx }>,
  ): Promise<'applied' | 'already-applied' | 'missing-row'>
  /** Every text that was written to the row and committed, oldest first. */
  history(row: string): Promise<readonly string[]>
}

/** A guard with connections of its own: one process, as the store sees it. */
export interface OpenGuard<Tx> {
  readonly guard: TransactionalGuard<Tx>
  /** Adds an entry to the list that the store keeps under `resource`. */
  append(tx: Tx, resource: string, entry: string): Promise<void>
  /** The entries that `tx` sees, oldest first. */
  entriesIn(tx: Tx, resource: string): Promise<readonly string[]>
  /** The entries that are committed, oldest first. */
  entries(resource: string): Promise<readonly string[]>
  /** Runs a statement that fails. */
  fail(tx: Tx): Promise<unknown>
  begin(): Promise<OwnTransaction<Tx>>
  /** Only of a guard that has the column form; without it those checks are left out. */
  readonly column?: ColumnForm<Tx>
  close(): Promise<void>
}

/** What `testGuard` needs to know of a guard and how to open it. */
export interface GuardHarness<Tx> {
  /** Begins the title of the suite, for example `postgres by pg`. */
  readonly title: string
  /** Where the store listens on 127.0.0.1, asked for in each check; null: nowhere, no network. */
  readonly port: () => number | null
  /** Whether bytes on their way to the store ask it to commit. */
  readonly isCommit: (bytes: Uint8Array) => boolean
  /** The words for `GuardRequest.isolation` that the store knows. */
  readonly isolations: readonly string[]
  /**
   * Of a guard that starts `fn` while the claim is on its way, and keeps every answer back until it is
   * good: `true`. It differs in that alone: `fn` may have begun for a superseded holder.
   */
  readonly startsEarly?: boolean
  /**
   * Of a store in which a statement that fails leaves the rest of its transaction as it was: `true`. Then
   * it is for `fn` to let the error out, and one that keeps it to itself commits the rest.
   */
  readonly outlivesFailures?: boolean
  open(request: GuardRequest): Promise<OpenGuard<Tx>>
}

/** What must come to pass comes within this, or the check fails. */
export const PATIENCE_MS = 25_000
const POLL_MS = 5

export interface GuardStore<Tx> {
  /** Two processes with a guard each. */
  readonly ours: OpenGuard<Tx>
  readonly theirs: OpenGuard<Tx>
  readonly isolations: readonly string[]
  readonly isCommit: (bytes: Uint8Array) => boolean
  readonly startsEarly: boolean
  readonly outlivesFailures: boolean
  /** A lock name of this check alone. */
  readonly lockName: string
  /** Closed with the store. */
  open(request: GuardRequest): Promise<OpenGuard<Tx>>
  /** A guard behind a proxy of its own; null: the store has no network. */
  behindProxy(request?: GuardRequest): Promise<Proxied<Tx> | null>
}

export type Proxied<Tx> = OpenGuard<Tx> & { readonly proxy: FaultProxy }

/** What happens to the first request of a kind that passes the proxy, before it is handed on. */
export type Fault = (connection: ProxyConnection) => void

export const loseAnswer: Fault = (connection) => connection.drop('toClient')
export const loseRequest: Fault = (connection) => connection.drop('toServer')
export const delayRequest: Fault = (connection) => connection.hold('toServer')

/** Why a check is left out that needs a proxy. */
export const NO_NETWORK = 'the store has no network'

/** Registers one property. The title is a sentence of the contract. */
export type GuardCheck<Tx> = (
  title: string,
  body: (store: GuardStore<Tx>, skip: (reason: string) => void) => Promise<void>,
) => void

export function guardChecksOf<Tx>({ it }: TestRunner, harness: GuardHarness<Tx>): GuardCheck<Tx> {
  return (title, body) => {
    it(title, async (test) => {
      const closers: (() => Promise<void>)[] = []
      const open = async (request: GuardRequest): Promise<OpenGuard<Tx>> => {
        const opened = await harness.open(request)
        closers.push(() => opened.close())
        const begin = opened.begin.bind(opened)
        return Object.assign(opened, { begin: () => tracked(begin, closers) })
      }
      try {
        const store: GuardStore<Tx> = {
          ours: await open({}),
          theirs: await open({}),
          isolations: harness.isolations,
          isCommit: harness.isCommit,
          startsEarly: harness.startsEarly === true,
          outlivesFailures: harness.outlivesFailures === true,
          lockName: `suite:${randomOwner()}`,
          open,
          async behindProxy(request = {}) {
            const port = harness.port()
            if (port === null) return null
            const proxy = await startProxy(port)
            closers.push(() => proxy.close())
            return Object.assign(await open({ ...request, port: proxy.port }), { proxy })
          },
        }
        await body(store, (reason) => test.skip(reason))
      } finally {
        for (const close of closers.reverse()) await close()
      }
    })
  }
}

/** A check that fails leaves its transaction behind, and the store would wait for it when it closes. */
async function tracked<Tx>(
  begin: OpenGuard<Tx>['begin'],
  closers: (() => Promise<void>)[],
): Promise<OwnTransaction<Tx>> {
  const own = await begin()
  let isOver = false
  const ending = (end: () => Promise<void>) => async (): Promise<void> => {
    isOver = true
    await end()
  }
  closers.push(async () => {
    if (!isOver) await own.rollBack()
  })
  return { tx: own.tx, commit: ending(own.commit), rollBack: ending(own.rollBack) }
}

export function fenced(
  lockName: string,
  fencingToken: bigint,
  fields: Partial<Fenced> = {},
): Fenced {
  return { lockName, fencingToken, owner: OWNER, source: 'suite:a', ...fields }
}

/** As text 9 is larger than 10; as a double the others are equal. */
export const NEIGHBOURS: readonly (readonly [bigint, bigint])[] = [
  [9n, 10n],
  [99n, 100n],
  [2n ** 53n, 2n ** 53n + 1n],
  [2n ** 62n - 1n, 2n ** 62n],
  [TOKEN_MAX - 1n, TOKEN_MAX],
]

/** Two owners; each is 22 characters, base64url. */
export const OWNER = 'a-owner-of-the-suite_1'
export const OTHER_OWNER = 'another-owner-of-it_22'

/**
 * A lease that ends at its time, unless it is renewed.
 *
 * @param isPaused Its signal never aborts, as in a process that stands still.
 */
export function leaseFor(presented: Fenced, validMs: number, isPaused = false): Lease {
  const controller = new AbortController()
  const beganAtMs = monotonicMs()
  let untilMs = beganAtMs + validMs
  const lost = (): LeaseLostError => {
    const { lockName, fencingToken } = presented
    const heldMs = monotonicMs() - beganAtMs
    return new LeaseLostError({ lockName, fencingToken, heldMs, reason: 'expired' })
  }
  const remainingMs = (): number => Math.max(0, untilMs - monotonicMs())
  const look = (): void => {
    if (remainingMs() > 0) timer = setTimeout(look, remainingMs())
    else if (!isPaused) controller.abort(lost())
  }
  let timer = setTimeout(look, validMs)
  const end = async (): Promise<'released'> => {
    clearTimeout(timer)
    untilMs = 0
    return 'released'
  }
  return {
    ...presented,
    signal: controller.signal,
    get isHeld() {
      return remainingMs() > 0
    },
    remainingMs,
    assertValid(remainingMsMin = 0) {
      const restMs = remainingMs()
      if (restMs === 0 || restMs < remainingMsMin) throw lost()
    },
    async renew(ttlMs = validMs) {
      untilMs = monotonicMs() + ttlMs
    },
    release: end,
    async [Symbol.asyncDispose]() {
      await end()
    },
  }
}

/** Polls until it is so. */
export async function until(isSo: () => boolean | Promise<boolean>, what: string): Promise<void> {
  const untilMs = monotonicMs() + PATIENCE_MS
  while (!(await isSo())) {
    if (monotonicMs() > untilMs) throw new Error(`not within ${PATIENCE_MS} ms: ${what}`)
    await sleep(POLL_MS)
  }
}

/** A promise that somebody else settles. */
export function gate(): { readonly opened: Promise<void>; open(): void } {
  let open = (): void => undefined
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open: () => open() }
}

/** Waits for nothing but the end, so that a rejection is looked at when the check comes to it. */
export async function outcome<T>(promise: Promise<T>): Promise<PromiseSettledResult<T>> {
  const [settled] = await Promise.allSettled([promise])
  return settled as PromiseSettledResult<T>
}

/** Of what a check did not expect, for its message. */
export function told(settled: PromiseSettledResult<unknown>): string {
  return settled.status === 'rejected' ? String(settled.reason) : `resolved: ${settled.value}`
}
