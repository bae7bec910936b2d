/**
 * A TCP proxy that stands between a client and a server, and does to their bytes what networks do:
 * delays them, keeps them back, loses them, breaks the connection.
 *
 * The end of a connection travels like a byte, behind those that were sent before it: bytes that are
 * kept back still arrive after their sender has gone. Loopback only.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

export type Direction = 'toServer' | 'toClient'

/** What can be done to all connections, or to one. */
export interface Faults {
  /** Hands everything on this much later, in milliseconds; 0: at once. */
  delay(direction: Direction, delayMs: number): void
  /** Keeps everything back until `letGo`. */
  hold(direction: Direction): void
  /** Hands on what was kept back, in its order, and everything after it. */
  letGo(direction: Direction): void
  /** Loses everything from now on, what was kept back too. In both directions: a black hole. */
  drop(direction: Direction): void
  /** Breaks the client's end by a reset. The server sees an end behind the bytes on their way to it. */
  resetClient(): void
  /** Breaks both ends by a reset. */
  reset(): void
}

export interface ProxyConnection extends Faults {
  /** 1 for the first connection of its proxy. */
  readonly id: number
}

/** Faults of a proxy hold for every connection that is open and for all that follow. */
export interface FaultProxy extends Faults {
  readonly port: number
  /** How many clients are connected. */
  readonly connectionCount: number
  /** Sees each piece of bytes before it is handed on, and may set faults that apply to it. */
  onBytes: (direction: Direction, bytes: Uint8Array, connection: ProxyConnection) => void
  /** Whether new connections are reset at once. */
  isRefusing: boolean
  /** No more faults: what was kept back is handed on. Lost bytes stay lost. */
  heal(): void
  /** Ends every connection and stops listening. */
  close(): Promise<void>
}

type Piece = Readonly<{ bytes: Uint8Array | null; dueAtMs: number }>
type Rule = Readonly<{ delayMs: number; isHeld: boolean; isDropped: boolean }>

const NO_FAULT: Rule = { delayMs: 0, isHeld: false, isDropped: false }
/** A test that keeps back more than this has forgotten to let go. */
const HELD_BYTES_MAX = 64 * 1024 * 1024

/** Starts a proxy on a free port of 127.0.0.1 in front of `port` there. */
export async function startProxy(port: number): Promise<FaultProxy> {
  const server = createServer({ allowHalfOpen: true, noDelay: true })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(0, '127.0.0.1', resolve)
  })
  return new TcpProxy(server, port)
}

class TcpProxy implements FaultProxy {
  readonly port: number
  onBytes: FaultProxy['onBytes'] = () => undefined
  isRefusing = false
  readonly #server: Server
  readonly #connections = new Set<Connection>()
  readonly #rules: Record<Direction, Rule> = { toServer: NO_FAULT, toClient: NO_FAULT }
  #count = 0

  constructor(server: Server, serverPort: number) {
    this.#server = server
    this.port = (server.address() as AddressInfo).port
    server.on('connection', (client) => this.#accept(client, serverPort))
  }

  get connectionCount(): number {
    return [...this.#connections].filter(({ hasClient }) => hasClient).length
  }

  delay(direction: Direction, delayMs: number): void {
    this.#change(direction, { delayMs })
  }

  hold(direction: Direction): void {
    this.#change(direction, { isHeld: true })
  }

  letGo(direction: Direction): void {
    this.#change(direction, { isHeld: false })
  }

  drop(direction: Direction): void {
    this.#change(direction, { isDropped: true })
  }

  heal(): void {
    this.isRefusing = false
    this.#change('toServer', NO_FAULT)
    this.#change('toClient', NO_FAULT)
  }

  resetClient(): void {
    for (const connection of this.#connections) connection.resetClient()
  }

  reset(): void {
    for (const connection of this.#connections) connection.reset()
  }

  async close(): Promise<void> {
    this.isRefusing = true
    this.reset()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #change(direction: Direction, change: Partial<Rule>): void {
    this.#rules[direction] = { ...this.#rules[direction], ...change }
    for (const connection of this.#connections) connection.change(direction, change)
  }

  #accept(client: Socket, serverPort: number): void {
    if (this.isRefusing) {
      // The client learns of it by the reset; what its socket reports here is the same.
      client.on('error', () => undefined)
      client.resetAndDestroy()
      return
    }
    this.#count += 1
    const server = connect({ port: serverPort, host: '127.0.0.1', allowHalfOpen: true })
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

class Connection implements ProxyConnection {
  readonly id: number
  readonly #client: Socket
  readonly #server: Socket
  readonly #lines: Readonly<Record<Direction, Line>>

  constructor(id: number, client: Socket, server: Socket, setting: Setting) {
    this.id = id
    this.#client = client
    this.#server = server
    this.#lines = {
      toServer: new Line(server, setting.rules.toServer),
      toClient: new Line(client, setting.rules.toClient),
    }
    const link = (source: Socket, direction: Direction): void => {
      source.setNoDelay(true)
      source.on('data', (bytes) => {
        setting.onBytes(direction, bytes)
        this.#lines[direction].push(bytes)
      })
      source.on('end', () => this.#lines[direction].push(null))
      // Every error of a socket is followed by its close, which is what is handed on.
      source.on('error', () => undefined)
      source.on('close', () => {
        this.#lines[direction].push(null)
        if (client.destroyed && server.destroyed) setting.onOver()
      })
    }
    link(client, 'toServer')
    link(server, 'toClient')
  }

  get hasClient(): boolean {
    return !this.#client.destroyed
  }

  delay(direction: Direction, delayMs: number): void {
    this.change(direction, { delayMs })
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

  resetClient(): void {
    this.#client.resetAndDestroy()
  }

  reset(): void {
    this.#client.resetAndDestroy()
    this.#server.resetAndDestroy()
  }

  change(direction: Direction, change: Partial<Rule>): void {
    this.#lines[direction].change(change)
  }
}

/** One direction of one connection. */
class Line {
  readonly #target: Socket
  readonly #pieces: Piece[] = []
  #rule: Rule
  #heldBytes = 0
  #isEnded = false
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(target: Socket, rule: Rule) {
    this.#target = target
    this.#rule = rule
    target.on('close', () => clearTimeout(this.#timer))
  }

  /** @param bytes Null: the end. */
  push(bytes: Uint8Array | null): void {
    if (this.#isEnded || this.#rule.isDropped) return
    this.#isEnded = bytes === null
    this.#heldBytes += bytes?.length ?? 0
    if (this.#heldBytes > HELD_BYTES_MAX) {
      throw new Error(`a proxy keeps back more than ${HELD_BYTES_MAX} bytes`)
    }
    this.#pieces.push({ bytes, dueAtMs: performance.now() + this.#rule.delayMs })
    this.#pump()
  }

  change(change: Partial<Rule>): void {
    this.#rule = { ...this.#rule, ...change }
    if (this.#rule.isDropped) {
      this.#pieces.length = 0
      this.#heldBytes = 0
    }
    this.#pump()
  }

  #pump(): void {
    clearTimeout(this.#timer)
    while (!this.#rule.isHeld) {
      const [first] = this.#pieces
      if (first === undefined) return
      const waitMs = this.#rule.delayMs === 0 ? 0 : first.dueAtMs - performance.now()
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#pump(), waitMs)
        return
      }
      this.#pieces.shift()
      this.#heldBytes -= first.bytes?.length ?? 0
      if (this.#target.destroyed) continue
      if (first.bytes === null) this.#target.end()
      else this.#target.write(first.bytes)
    }
  }
}
