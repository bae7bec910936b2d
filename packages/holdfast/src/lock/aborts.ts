/**
 * One listener of ours on each signal, however many calls share it.
 *
 * A process often passes one shutdown signal to every call, and from the eleventh listener on Node
 * warns of a memory leak.
 */
interface Shared {
  readonly callbacks: Set<() => void>
  readonly onAbort: () => void
}

const sharedBySignal = new WeakMap<AbortSignal, Shared>()

/**
 * Calls `callback` once when `signal` aborts, or at once if it has: it may have while the request
 * was being sent, by a listener or by the client. Returns the function that ends that.
 */
export function onAbort(signal: AbortSignal, callback: () => void): () => void {
  if (signal.aborted) {
    callback()
    return () => {}
  }
  const shared = sharedBySignal.get(signal) ?? share(signal)
  // Its own function, so that one callback given twice stands there twice.
  const own = (): void => callback()
  shared.callbacks.add(own)
  return () => {
    shared.callbacks.delete(own)
    if (shared.callbacks.size > 0 || sharedBySignal.get(signal) !== shared) return
    sharedBySignal.delete(signal)
    signal.removeEventListener('abort', shared.onAbort)
  }
}

function share(signal: AbortSignal): Shared {
  const callbacks = new Set<() => void>()
  const shared: Shared = {
    callbacks,
    onAbort: () => {
      sharedBySignal.delete(signal)
      for (const callback of callbacks) callback()
    },
  }
  sharedBySignal.set(signal, shared)
  signal.addEventListener('abort', shared.onAbort, { once: true })
  return shared
}
