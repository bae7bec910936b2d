/**
 * The network between a process and a store: two connections, each in order, neither with the other.
 *
 * A message that is lost takes its connection with it, and a new one takes its place: requests that are
 * on their way on it still arrive, however late, and answers do not. The sender is told of it or hears
 * nothing. A client library may send a request again that had no answer, always on a new connection;
 * nothing else is ever done twice. A cut link loses everything, in silence.
 */
import type { Process } from './process.ts'
import type { Random } from './random.ts'
import type { Weather } from './scenarios.ts'

const CONNECTIONS = 2
const QUICK_MS = 5
const USUAL_MS_MAX = 25
const QUICK_SHARE = 0.8
/** A client library notices that its connection is gone, and sends again, within this. */
const RESEND_MS_MAX = 300
/** So that two messages of a connection never arrive at one time. */
const ORDER_MS = 0.001

/** `toServerMs`, `toClientMs`: when the last message of that direction arrives. */
type Connection = { id: number; toServerMs: number; toClientMs: number; isBroken: boolean }

interface Request<T> {
  readonly what: string
  readonly execute: () => Promise<T>
  readonly resolve: (answer: T) => void
  readonly reject: (error: unknown) => void
  isAnswered: boolean
}

export class ConnectionLostError extends Error {
  override readonly name = 'ConnectionLostError'
}

export class Link {
  isCut = false
  readonly #client: Process
  readonly #server: Process
  readonly #random: Random
  readonly #weather: Weather
  readonly #connections: Connection[] = []
  #lastId = 0

  constructor(client: Process, server: Process, random: Random, weather: Weather) {
    this.#client = client
    this.#server = server
    this.#random = random
    this.#weather = weather
    while (this.#connections.length < CONNECTIONS) this.#connections.push(this.#open())
  }

  /**
   * Runs `execute` at the server, and gives its answer; both ways are long, or do not end.
   *
   * @param what For the trace.
   * @param mayResend Whether the client library sends it again when it had no answer.
   */
  call<T>(what: string, mayResend: boolean, execute: () => Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const request: Request<T> = { what, execute, resolve, reject, isAnswered: false }
      const first = this.#pick()
      this.#send(request, first)
      if (!mayResend || !this.#random.chance(this.#weather.resend)) return
      const laterMs = this.#random.between(1, RESEND_MS_MAX)
      this.#client.deliver(this.#nowMs + laterMs, () => {
        if (request.isAnswered) return
        this.#client.note(() => `sends again: ${what}`)
        this.#break(first)
        this.#send(request, this.#open())
      })
    })
  }

  /** Tells the client something that it did not ask for. */
  push(what: string, run: () => void): void {
    const connection = this.#pick()
    const atMs = this.#arrival(connection, 'toClientMs')
    if (atMs === null) return
    this.#client.deliver(atMs, () => {
      if (connection.isBroken || this.isCut) return
      this.#client.note(() => `is told: ${what}`)
      run()
    })
  }

  get #nowMs(): number {
    return this.#client.scheduler.nowMs
  }

  #send<T>(request: Request<T>, connection: Connection): void {
    this.#client.note(() => `sends on ${connection.id}: ${request.what}`)
    const atMs = this.#arrival(connection, 'toServerMs')
    if (atMs === null) return this.#lost(connection, request)
    this.#server.deliver(atMs, () => {
      if (this.isCut) return
      const answer = (settle: () => void): void => this.#answer(connection, request, settle)
      request.execute().then(
        (value) => answer(() => request.resolve(value)),
        (error: unknown) => answer(() => request.reject(error)),
      )
    })
  }

  #answer<T>(connection: Connection, request: Request<T>, settle: () => void): void {
    this.#server.note(() => `has done: ${request.what}`)
    if (connection.isBroken) return
    const atMs = this.#arrival(connection, 'toClientMs')
    if (atMs === null) return this.#lost(connection, request)
    this.#client.deliver(atMs, () => {
      if (connection.isBroken || this.isCut) return
      request.isAnswered = true
      this.#client.note(() => `has the answer: ${request.what}`)
      settle()
    })
  }

  /** Null: it never arrives. */
  #arrival(connection: Connection, direction: 'toServerMs' | 'toClientMs'): number | null {
    if (this.isCut || this.#random.chance(this.#weather.loss)) return null
    const atMs = Math.max(this.#nowMs + this.#delayMs(), connection[direction] + ORDER_MS)
    connection[direction] = atMs
    return atMs
  }

  #delayMs(): number {
    const { slow, slowMsMax } = this.#weather
    if (this.#random.chance(slow)) return this.#random.between(USUAL_MS_MAX, slowMsMax)
    if (this.#random.chance(QUICK_SHARE)) return this.#random.between(1, QUICK_MS)
    return this.#random.between(QUICK_MS, USUAL_MS_MAX)
  }

  #lost<T>(connection: Connection, request: Request<T>): void {
    this.#client.note(() => `lost: ${request.what}`)
    if (this.isCut) return
    this.#break(connection)
    if (!this.#random.chance(0.5)) return
    this.#client.deliver(this.#nowMs + this.#delayMs(), () => {
      if (!request.isAnswered) request.reject(new ConnectionLostError('connection lost'))
    })
  }

  #pick(): Connection {
    return this.#random.pick(this.#connections)
  }

  #break(connection: Connection): void {
    connection.isBroken = true
    const place = this.#connections.indexOf(connection)
    if (place >= 0) this.#connections[place] = this.#open()
  }

  #open(): Connection {
    this.#lastId += 1
    return { id: this.#lastId, toServerMs: 0, toClientMs: 0, isBroken: false }
  }
}
