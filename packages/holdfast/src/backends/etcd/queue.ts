/**
 * Standing in etcd's queue: a place is made, and its turn waited for.
 *
 * Guarantees:
 * K1. Whoever is granted was the first in the queue at a revision not older than its own place.
 * K2. A place is kept alive while its contender waits, a third of the TTL apart, by name-watch's list and
 *     by a look at the very place. A place that vanished is taken again, at the end, by the same owner.
 *     A turn that cannot be proven leaves its place behind, for the caller to cancel.
 * K3. A grant counts from the last proven keep-alive. One that is too old is proven anew first, and the
 *     place is looked at then: a process that was stopped must not believe an old event.
 */
import type { AcquireRequest, AcquireResult } from '../../core/backend.ts'
import { OutcomeUnknownError } from '../../core/errors.ts'
import { forget, refusal, stand } from './asking.ts'
import { confirm, isKept } from './confirming.ts'
import type { Context } from './context.ts'
import type { Entry } from './entries.ts'
import { NameWatch } from './name-watch.ts'
import { ageMsOf, type Session } from './sessions.ts'

/** Whom the engine lets know what is seen while a contender waits. */
interface Told {
  readonly refused: (held: Extract<AcquireResult, { kind: 'held' }>) => void
  readonly unanswered: ((error: unknown) => void) | undefined
}

const KEEP_SHARE = 1 / 3
const KEEP_AGAIN_SHARE = 1 / 10
/** A session that was confirmed longer ago is confirmed before a grant rests on it. */
const STALE_SHARE = 1 / 2

export class Queue {
  readonly #context: () => Context
  readonly #names = new Map<string, NameWatch>()
  readonly #kept = new Map<Session, () => void>()
  #isClosed = false

  constructor(context: () => Context) {
    this.#context = context
  }

  async acquire(request: AcquireRequest, signal: AbortSignal, told: Told): Promise<AcquireResult> {
    const context = this.#context()
    signal.throwIfAborted()
    for (;;) {
      const { entry, older } = await stand(context, request)
      if (signal.aborted) throw signal.reason
      const isFirst = older === undefined
      if (!isFirst) {
        try {
          told.refused(refusal(context, request.lockName, older))
        } catch (error) {
          // No lock stands there: nothing will ever end it, so the place is of no use.
          forget(context, entry)
          throw error
        }
      }
      const isOurs = isFirst || (await this.#turn(entry, signal, told))
      if (isOurs && (await this.#isProven(entry).catch(unproven))) {
        if (signal.aborted) throw signal.reason
        return { kind: 'granted', grant: context.entries.granted(entry) }
      }
      // K2.
      forget(context, entry)
    }
  }

  /** Resolves when the name may be free, or its value has changed, and on abort. */
  wakeUp(lockName: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      let unlisten: (() => void) | null = null
      const end = (): void => {
        signal.removeEventListener('abort', end)
        resolve()
        if (unlisten) unlisten()
        else queueMicrotask(() => unlisten?.())
      }
      signal.addEventListener('abort', end, { once: true })
      unlisten = this.#watch(lockName).listen(end)
    })
  }

  close(): void {
    this.#isClosed = true
    for (const watch of this.#names.values()) watch.close()
    this.#names.clear()
    for (const cancel of this.#kept.values()) cancel()
    this.#kept.clear()
  }

  /** False: its place vanished. Rejects on abort. */
  #turn(entry: Entry, signal: AbortSignal, told: Told): Promise<boolean> {
    const context = this.#context()
    const { lockName } = entry.request
    return new Promise((resolve, reject) => {
      entry.state = 'waiting'
      let leave = (): void => undefined
      const end = (): void => {
        signal.removeEventListener('abort', onAbort)
        entry.onVanished = null
        // In a later turn: it may be told before it has been told how to leave.
        queueMicrotask(() => leave())
      }
      const onAbort = (): void => {
        end()
        reject(signal.reason)
      }
      entry.onVanished = () => {
        end()
        resolve(false)
      }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#keep(entry.session)
      leave = this.#watch(lockName).wait(entry, {
        ended(what) {
          end()
          resolve(what === 'first')
        },
        seen(first) {
          try {
            told.refused(refusal(context, lockName, first, 0))
          } catch (error) {
            end()
            forget(context, entry)
            reject(error)
          }
        },
        unanswered: (cause) => told.unanswered?.(unseen(cause)),
      })
    })
  }

  /** K3. What must live from now on begins its life now. */
  async #isProven(entry: Entry): Promise<boolean> {
    const context = this.#context()
    const { session, request } = entry
    const ageMs = ageMsOf(context.seams(), session)
    if (session.isOver) return false
    if (entry.state === 'asking' && ageMs < session.ttlMs * STALE_SHARE) return true
    if (request.ownLife !== true && ageMs < session.ttlMs * STALE_SHARE) return true
    const present = await confirm(context, session, [entry], request.timeoutMs)
    return isKept(present, entry, session)
  }

  #watch(lockName: string): NameWatch {
    const known = this.#names.get(lockName)
    if (known) return known
    const watch = new NameWatch(this.#context(), lockName, () => {
      watch.close()
      if (this.#names.get(lockName) === watch) this.#names.delete(lockName)
    })
    this.#names.set(lockName, watch)
    return watch
  }

  /** K2. */
  #keep(session: Session): void {
    if (this.#isClosed || this.#kept.has(session)) return
    const { seams, entries } = this.#context()
    const plan = (delayMs: number): void => {
      const cancel = seams().after(delayMs, () => {
        if (session.isOver || entries.waitingOn(session).length === 0) this.#kept.delete(session)
        else void this.#confirmWaiting(session).then(plan)
      })
      this.#kept.set(session, cancel)
    }
    plan(Math.max(0, session.ttlMs * KEEP_SHARE - ageMsOf(seams(), session)))
  }

  /** @returns When to do it again. Never rejects. */
  async #confirmWaiting(session: Session): Promise<number> {
    const context = this.#context()
    const waiting = context.entries.waitingOn(session)
    try {
      const present = await confirm(context, session, waiting, session.ttlMs * KEEP_SHARE)
      for (const entry of waiting) {
        if (!isKept(present, entry, session)) entry.onVanished?.()
      }
      return session.ttlMs * KEEP_SHARE
    } catch {
      return session.ttlMs * KEEP_AGAIN_SHARE
    }
  }
}

/** As with `unproven`, the place stands there. */
function unseen(cause: unknown): OutcomeUnknownError {
  return new OutcomeUnknownError('etcd does not answer, and a place was left in its queue', {
    cause,
  })
}

/** Not "unavailable", which says that nothing was done: the place stands there, and must be undone. */
function unproven(cause: unknown): never {
  throw new OutcomeUnknownError('its turn came, and etcd did not prove that its place is alive', {
    cause,
  })
}
