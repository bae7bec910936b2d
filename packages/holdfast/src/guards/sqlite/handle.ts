/**
 * What `fn` gets in place of its connection: the same, for as long as its transaction lasts.
 *
 * SQLite has no transaction that a statement belongs to: a statement that comes after the end is a
 * transaction of its own, which no fence guards. So each call asks first whether the transaction that
 * the guard began is still open, and is refused when it is not. That also covers the ends that are
 * nobody's decision: SQLite rolls back by itself when the disk is full, or for `INSERT OR ROLLBACK`.
 *
 * Everything but methods is the connection's own, and statements, iterators and functions that its
 * methods make are wrapped in the same way.
 */
import type { SqliteDatabase } from '../../clients/sqlite.ts'

/** Asked around each call. */
export interface Gate {
  /** @throws when the transaction is over. */
  enter(): void
  /** @param thrown What the call threw; null: it returned. */
  leave(thrown: { readonly error: unknown } | null): void
  /** An iterator was begun: an open one keeps a connection of better-sqlite3 from all else. */
  began(iterator: Iterator<unknown>): void
}

export type Inside = Readonly<{ db: SqliteDatabase; gate: Gate }>

const handles = new WeakMap<object, Inside>()

/** The connection behind a handle; null: it is none. */
export function insideOf(tx: object): Inside | null {
  return handles.get(tx) ?? null
}

export function handleOn<Db extends SqliteDatabase>(db: Db, gate: Gate): Db {
  const handle = wrapped(db, gate)
  handles.set(handle, { db, gate })
  return handle
}

/** Methods whose results run statements later. */
const MAKERS: ReadonlySet<unknown> = new Set([
  'prepare',
  'transaction',
  'iterate',
  'createTagStore',
])

function wrapped<T extends object>(target: T, gate: Gate): T {
  // The forms of a transaction of better-sqlite3 are fixed properties, of which a proxy would have to give
  // the very value; not so one whose own target has none.
  const shown = typeof target === 'function' ? ((() => undefined) as unknown as T) : target
  const proxy: T = new Proxy(shown, {
    get(_, name) {
      const value: unknown = Reflect.get(target, name, target)
      if (typeof value !== 'function') return value
      return (...values: unknown[]) => {
        const result: unknown = guarded(gate, () => Reflect.apply(value, target, values))
        if (result === target) return proxy
        if (name === 'iterate') gate.began(result as Iterator<unknown>)
        const isMade = MAKERS.has(name) || typeof result === 'function'
        return isMade && isObject(result) ? wrapped(result, gate) : result
      }
    },
    apply: (_, self, values: unknown[]) =>
      guarded(gate, () => Reflect.apply(target as CallableFunction, self, values)),
  })
  return proxy
}

function guarded(gate: Gate, call: () => unknown): unknown {
  gate.enter()
  try {
    const result = call()
    gate.leave(null)
    return result
  } catch (error) {
    gate.leave({ error })
    throw error
  }
}

function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}
