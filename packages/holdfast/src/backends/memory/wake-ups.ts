/** Contenders that sleep until a name may be free. Each is told once, and then forgotten. */
export class WakeUps {
  readonly #sleepers = new Map<string, Set<() => void>>()

  /** Resolves at the next `wake` of this name, or when `signal` aborts. */
  sleep(lockName: string, signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      if (signal.aborted) return resolve()
      const sleepers = this.#sleepers.get(lockName) ?? new Set()
      this.#sleepers.set(lockName, sleepers)
      const end = (): void => {
        // The signal may outlive this sleep by far, so nothing of ours may stay on it.
        signal.removeEventListener('abort', end)
        sleepers.delete(end)
        if (sleepers.size === 0 && this.#sleepers.get(lockName) === sleepers) {
          this.#sleepers.delete(lockName)
        }
        resolve()
      }
      sleepers.add(end)
      signal.addEventListener('abort', end)
    })
  }

  wake(lockName: string): void {
    for (const end of [...(this.#sleepers.get(lockName) ?? [])]) end()
  }

  wakeAll(): void {
    for (const lockName of [...this.#sleepers.keys()]) this.wake(lockName)
  }
}
