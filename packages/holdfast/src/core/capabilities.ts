/** What a backend claims. Every value has a sentence in docs/guarantees.md. */
export type Capabilities = Readonly<{
  /** How far exclusion reaches: this process, all processes of one host, every client of a store. */
  scope: 'process' | 'host' | 'network'
  /** What fencing tokens keep rising across. */
  fencing: 'process-lifetime' | 'durable-store' | 'forward-clock' | 'quorum' | 'consensus'
  /** What ends a lease that nobody renews. */
  expiry: 'monotonic-clock' | 'boot-clock' | 'wall-clock' | 'session'
  /** Whether a running holder is told before or after the store may grant the name again. */
  lossNotice: 'before' | 'after'
  /** In which order contenders are served: over all processes, or only within each. */
  order: 'queue' | 'queue-per-process'
  /** How a contender learns that asking again is worth while. Polling stays the guarantee. */
  wakeUp: 'push' | 'poll'
  /** The shortest and the longest `ttlMs` the store takes, in milliseconds. */
  ttlMsMin: number
  ttlMsMax: number
}>
