/**
 * A TCP proxy that stands between a client and a server, and does to their bytes what networks do:
 * delays them, keeps them back, loses them, breaks the connection.
 *
 * Guarantee: without a fault every byte, half-closed end and reset arrives as it was sent, in order;
 * a sender whose bytes are not taken is held up, as on a real line. The end of a connection travels
 * like a byte, behind those that were sent before it: bytes that are kept back still arrive after
 * their sender has gone.
 *
 * Does not guarantee: a connection that is lost before it is made. The proxy always answers the
 * handshake itself, and then resets or keeps silent. Loopback only.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { integer } from '../core/options.ts'
import { Line, NO_FAULT, type Rule, resetSocket } from './proxy-line.ts'

export type Direction = 'toServer' | 'toClient'

/** What can be done to all connections, or to one. */
export interface Faults {
  /**
   * Hands everything on later, in order.
   *
   * @param delayMs An integer of milliseconds, 0 to 3,600,000; 0: at once.
   * @param jitterMs Up to this much later besides, at random; 0, the default: none.
   * @throws InvalidArgumentError
   */
  delay(direction: Direction, delayMs: number, jitterMs?: number): void
  /** Keeps everything back until `letGo`: a pause that TCP makes good. */
  hold(direction: Direction): void
  /** Hands on what was kept back, in its order, and everything after it. */
  letGo(direction: Direction): void
  /**
   * Loses everything from now on, what was kept back and the end of the connection too: one side
   * may be gone, and the other is not told. In both directions: a black hole. A connection that lost
   * something stays so in that direction, because TCP delivers no stream with a hole; it can only be
   * reset.
   */
  drop(direction: Direction): void
  /** Breaks the client's end by a reset. The server sees an end behind the bytes on their way to it. */
  resetClient(): void
  /** Breaks the server's end by a reset. The client sees an end behind the bytes on their way to it. */
  resetServer(): void
  /** Breaks both ends by a reset. */
  reset(): void
}

export interface ProxyConnection extends Faults {
  /** 1 for the first connection of its proxy. */
  readonly id: number
}

/** Faults of a proxy hold for every connection that is open and for all that follow. */
export interface FaultProxy extends Faults, AsyncDisposable {
  /** Where to connect, on 127.0.0.1. */
  readonly port: number
  /** Where new connections lead; open ones stay, as behind a name that moves to another server. */
  serverPort: number
  /** How many clients are connected. */
  readonly connectionCount: number
  /** How many have been accepted since the start, without those that were refused. */
  readonly acceptedCount: number
  /** Sees each piece of bytes before it is handed on, and may set faults that apply to it. */
  onBytes: (direction: Direction, bytes: Uint8Array, connection: ProxyConnection) => void
  /** Whether new connections are reset at once. */
  isRefusing: boolean
  /** No more faults: what was kept back is handed on. Lost bytes stay lost. */
  heal(): void
  /** Ends every connection and stops listening. A proxy that is not closed keeps its process alive. */
  close(): Promise<void>
}

const PORT_MAX = 65_535
const DELAY_MS_MAX = 3_600_000

/**
 * Starts a proxy on a free port of 127.0.0.1.
 *
 * @param port Where the server listens on 127.0.0.1, 1 to 65,535. It need not be there yet: clients
 *   are then connected and reset.
 * @throws InvalidArgumentError
 */
export async function startProxy(port: number): Promise<FaultProxy> {
  integer('port', port, 1, PORT_MAX)
  const server = createServer({ allowHalfOpen: true, noDelay: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return new TcpProxy(server, port)
}

/** The faults of a direction are changes of its rule, for one connection or for all. */
abstract class RuledFaults {
  abstract change(direction: Direction, change: Partial<Rule>): void

  delay(direction: Direction, delayMs: number, jitterMs = 0): void {
    integer('delayMs', delayMs, 0, DELAY_MS_MAX, ' milliseconds')
    integer('jitterMs', jitterMs, 0, DELAY_MS_MAX, ' milliseconds')
    this.change(direction, { delayMs, jitterMs })
  }

  hold(direction: Direction): void {
    this.change(direction, { isHeld: true })
  }

  letGo(direction: Direction): void {
    this.change(direction, { isHeld: false })
  }

  drop(direction: Direction): void {
    this.change(direction, { isDropped: true })
  }
}

class TcpProxy extends RuledFaults implements FaultProxy {
  readonly port: number
  serverPort: number
  onBytes: FaultProxy['onBytes'] = () => undefined
  isRefusing = false
  readonly #server: Server
  readonly #connections = new Set<Connection>()
  readonly #rules: Record<Direction, Rule> = { toServer: NO_FAULT, toClient: NO_FAULT }
  #count = 0

  constructor(server: Server, serverPort: number) {
    super()
    this.#server = server
    this.port = (server.address() as AddressInfo).port
    this.serverPort = serverPort
    server.on('connection', (client) => this.#accept(client))
  }

  get connectionCount(): number {
    return [...this.#connections].filter(({ hasClient }) => hasClient).length
  }

  get acceptedCount(): number {
    return this.#count
  }

  change(direction: Direction, change: Partial<Rule>): void {
    this.#rules[direction] = { ...this.#rules[direction], ...change }
    for (const connection of this.#connections) connection.change(direction, change)
  }

  heal(): void {
    this.isRefusing = false
    this.change('toServer', NO_FAULT)
    this.change('toClient', NO_FAULT)
  }

  resetClient(): void {
    for (const connection of this.#connections) connection.resetClient()
  }

  resetServer(): void {
    for (const connection of this.#connections) connection.resetServer()
  }

  reset(): void {
    for (const connection of this.#connections) connection.reset()
  }

  async close(): Promise<void> {
    this.isRefusing = true
    this.reset()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #accept(client: Socket): void {
    if (this.isRefusing) {
      // The client learns of it by the reset; what its socket reports here is the same.
      client.on('error', () => undefined)
      client.resetAndDestroy()
      return
    }
    this.#count += 1
    const server = connect({ port: this.serverPort, host: '127.0.0.1', allowHalfOpen: true })
    const connection = new Connection(this.#count, client, server, {
      rules: { ...this.#rules },
      onBytes: (direction, bytes) => this.onBytes(direction, bytes, connection),
      onOver: () => this.#connections.delete(connection),
    })
    this.#connections.add(connection)
  }
}

type Setting = Readonly<{
  rules: Record<Direction, Rule>
  onBytes: (direction: Direction, bytes: Uint8Array) => void
  onOver: () => void
}>

class Connection extends RuledFaults implements ProxyConnection {
  readonly id: number
  readonly #client: Socket
  readonly #server: Socket
  readonly #lines: Readonly<Record<Direction, Line>>

  constructor(id: number, client: Socket, server: Socket, setting: Setting) {
    super()
    this.id = id
    this.#client = client
    this.#server = server
    this.#lines = {
      toServer: new Line(client, server, setting.rules.toServer),
      toClient: new Line(server, client, setting.rules.toClient),
    }
    const link = (source: Socket, direction: Direction): void => {
      let hasFailed = false
      source.setNoDelay(true)
      source.on('data', (bytes) => {
        setting.onBytes(direction, bytes)
        this.#lines[direction].push(bytes)
      })
      source.on('end', () => this.#lines[direction].push('end'))
      source.on('error', () => {
        hasFailed = true
      })
      // Every error of a socket is followed by its close, which is what is handed on.
      source.on('close', () => {
        this.#lines[direction].push(hasFailed ? 'reset' : 'end')
        if (client.destroyed && server.destroyed) setting.onOver()
      })
    }
    link(client, 'toServer')
    link(server, 'toClient')
  }

  get hasClient(): boolean {
    return !this.#client.destroyed
  }

  change(direction: Direction, change: Partial<Rule>): void {
    this.#lines[direction].change(change)
  }

  resetClient(): void {
    resetSocket(this.#client)
  }

  resetServer(): void {
    resetSocket(this.#server)
  }

  reset(): void {
    this.resetClient()
    this.resetServer()
  }
}
