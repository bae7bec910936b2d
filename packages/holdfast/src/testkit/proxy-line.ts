/** One direction of one connection of a proxy; see proxy.ts. */
import type { Socket } from 'node:net'

/** What is done to the bytes of a direction. */
export interface Rule {
  readonly delayMs: number
  /** Up to this much later besides, at random, in order. */
  readonly jitterMs: number
  readonly isHeld: boolean
  readonly isDropped: boolean
}

export const NO_FAULT: Rule = { delayMs: 0, jitterMs: 0, isHeld: false, isDropped: false }

/** A reset is an end that the receiver sees as a failure. */
type Piece = Readonly<{ what: Uint8Array | 'end' | 'reset'; dueAtMs: number }>

/** With more than this under way nothing is read: the sender's own buffers fill, as on a real line. */
const KEPT_BYTES_MAX = 1024 * 1024

export class Line {
  readonly #source: Socket
  readonly #target: Socket
  #pieces: Piece[] = []
  #rule: Rule
  #keptBytes = 0
  /** The sender has said its last word, or nobody is left to hear it. */
  #isOver = false
  #isPaused = false
  /** The receiver takes no more for now. */
  #isBlocked = false
  /** TCP never delivers a stream with a hole: after a loss nothing passes any more. */
  #hasLost = false
  #timer: ReturnType<typeof setTimeout> | undefined

  constructor(source: Socket, target: Socket, rule: Rule) {
    this.#source = source
    this.#target = target
    this.#rule = rule
    target.on('drain', () => {
      this.#isBlocked = false
      this.#pump()
    })
    target.on('close', () => {
      this.#isOver = true
      this.#discard()
      this.#pump()
    })
  }

  push(what: Piece['what']): void {
    if (this.#isOver) return
    if (typeof what === 'string') this.#isOver = true
    if (this.#rule.isDropped || this.#hasLost) {
      this.#hasLost = true
      return
    }
    const { delayMs, jitterMs } = this.#rule
    const dueAtMs = performance.now() + delayMs + jitterMs * Math.random()
    this.#keptBytes += lengthOf(what)
    this.#pieces.push({ what, dueAtMs })
    this.#pump()
  }

  change(change: Partial<Rule>): void {
    this.#rule = { ...this.#rule, ...change }
    if (this.#rule.isDropped) {
      this.#hasLost ||= this.#pieces.length > 0
      this.#discard()
    }
    this.#pump()
  }

  get #isDelayed(): boolean {
    return this.#rule.delayMs > 0 || this.#rule.jitterMs > 0
  }

  #discard(): void {
    this.#pieces = []
    this.#keptBytes = 0
    this.#isBlocked = false
  }

  #pump(): void {
    clearTimeout(this.#timer)
    while (!this.#rule.isHeld && !this.#isBlocked) {
      const [first] = this.#pieces
      if (first === undefined) break
      const waitMs = this.#isDelayed ? first.dueAtMs - performance.now() : 0
      if (waitMs > 0) {
        this.#timer = setTimeout(() => this.#pump(), waitMs)
        break
      }
      this.#pieces.shift()
      this.#keptBytes -= lengthOf(first.what)
      this.#handOn(first.what)
    }
    const isFull = this.#keptBytes > KEPT_BYTES_MAX
    if (isFull === this.#isPaused) return
    this.#isPaused = isFull
    if (isFull) this.#source.pause()
    else this.#source.resume()
  }

  #handOn(what: Piece['what']): void {
    if (this.#target.destroyed) return
    if (what === 'end') this.#target.end()
    else if (what === 'reset') resetSocket(this.#target)
    else this.#isBlocked = !this.#target.write(what)
  }
}

/**
 * While the end of a socket is on its way out it cannot be reset: Node reports EINVAL, forgets the
 * handle without closing it, so that the peer is never told, and does not come to its own end.
 */
export function resetSocket(socket: Socket): void {
  const { destroyed, writableEnded, writableFinished, writableLength } = socket
  const isEnding = writableEnded && !writableFinished && writableLength === 0
  if (!destroyed && isEnding) socket.once('finish', () => socket.resetAndDestroy())
  else socket.resetAndDestroy()
}

function lengthOf(what: Piece['what']): number {
  return typeof what === 'string' ? 0 : what.length
}
