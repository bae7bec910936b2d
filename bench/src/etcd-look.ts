/** A look into an etcd beside the contestants, used between slices only. */
import { type EtcdCalls, openEtcd } from './etcd-calls.ts'

/** A zero byte: the first of all keys, and as an end the end of them. */
const EVERYTHING = Buffer.from([0])

/** What the server did for whoever asked. */
export interface EtcdServed {
  /** Messages that it received: one for each request, and for each watch that is opened or ended. */
  readonly requests: number
  /** That it sent to watchers. */
  readonly events: number
}

export class EtcdLook {
  readonly #endpoint: string
  readonly #calls: EtcdCalls

  constructor(endpoint: string) {
    this.#endpoint = endpoint
    this.#calls = openEtcd(endpoint)
  }

  close(): void {
    this.#calls.close()
  }

  /** Keys that end with a lease: places of those who hold or wait, and nothing else. */
  async keysOnLeases(): Promise<number> {
    const { kvs = [] } = await this.#calls.range({ key: EVERYTHING, range_end: EVERYTHING })
    return kvs.filter(({ lease = '0' }) => lease !== '0').length
  }

  async served<T>(work: () => Promise<T>): Promise<{ result: T; served: EtcdServed }> {
    const before = await this.#counters()
    const result = await work()
    const after = await this.#counters()
    const requests = after.requests - before.requests
    return { result, served: { requests, events: after.events - before.events } }
  }

  /** By HTTP, which is in no counter. */
  async #counters(): Promise<EtcdServed> {
    const answer = await fetch(`http://${this.#endpoint}/metrics`)
    return countersIn(await answer.text())
  }
}

/**
 * @param metrics As etcd prints them.
 * @throws when they do not tell what is asked.
 */
export function countersIn(metrics: string): EtcdServed {
  const received = sumOf(metrics, /^grpc_server_msg_received_total\{[^}]*\} (\S+)$/gm)
  const events = sumOf(metrics, /^etcd_debugging_mvcc_events_total (\S+)$/gm)
  if (received === null || events === null) throw new Error('etcd does not count what it is sent')
  return { requests: received, events }
}

function sumOf(text: string, line: RegExp): number | null {
  const values = [...text.matchAll(line)].map(([, value]) => Number(value))
  return values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0)
}
