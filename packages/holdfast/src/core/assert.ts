/** A bug of this package, never a mistake of its user: those get {@link InvalidArgumentError}. */
export class InvariantError extends Error {
  static {
    InvariantError.prototype.name = 'InvariantError'
  }
}

/** Stays on in production: a lock that goes on after a broken invariant is worse than none. */
export function assert(condition: boolean, message: string): asserts condition {
  if (!condition) throw new InvariantError(message)
}
