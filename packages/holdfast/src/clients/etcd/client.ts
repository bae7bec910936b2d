/**
 * A client of etcd: several members, one of which is asked.
 *
 * Guarantees:
 * T1. Every request has a bound in time, and is told to the member too.
 * T2. What may change something is sent once. Only where etcd said that the login is over, or gRPC that
 *     it had no connection, is it sent again: it cannot have been applied. A question goes on to the
 *     next member, within its time.
 * T3. A member that failed is asked last from then on. Of those that answer the leader is asked, because
 *     every other member passes a write on to it: a hop more.
 */
import { InvalidArgumentError } from '../../core/errors.ts'
import type { Seams } from '../../core/seams.ts'
import { asEtcdError, asUnanswered, isLoggedOut, isMembersFault, isUnreachable } from './errors.ts'
import type { Member, Stream } from './member.ts'
import type { LeaseAnswer, Methods, StatusResponse, Streams } from './messages.ts'
import type { EtcdTarget } from './target.ts'

/** Where there is another member to ask, one is not waited for longer. Milliseconds. */
const WRITE_MS_MAX = 1000
const READ_MS_MIN = 250
const STATUS_MS_MAX = 500
/** An election takes about this long. */
const LOOK_AGAIN_MS = 1000
const LOOKS_MAX = 20

export class EtcdClient {
  readonly #seams: () => Seams
  readonly #target: EtcdTarget
  /** Empty before the first request: gRPC is loaded when it is needed, and not before. */
  #members: readonly Member[] = []
  #current = 0
  #loggingIn: Promise<void> | null = null
  #isLoggedIn: boolean
  #opening: Promise<void> | null = null
  #isLoaded = false
  #looks = 0
  #cancelLook: (() => void) | null = null
  #isClosed = false

  constructor(seams: () => Seams, target: EtcdTarget) {
    this.#seams = seams
    this.#target = target
    this.#isLoggedIn = target.login === null
  }

  /** The member that is asked at present. */
  get endpoint(): string {
    return this.#target.endpoints[this.#current] as string
  }

  /** A request that changes something: T2. @throws BackendUnavailableError, OutcomeUnknownError. */
  async write<M extends keyof Methods>(
    name: M,
    request: Methods[M][0],
    timeoutMs: number,
    what: string,
  ): Promise<Methods[M][1]> {
    const tryMs = this.#isSingle ? timeoutMs : Math.min(timeoutMs, WRITE_MS_MAX)
    try {
      if (!this.#isOpen) await this.#open(timeoutMs)
      return await this.#callSafely(name, request, tryMs)
    } catch (error) {
      throw asEtcdError(error, what)
    }
  }

  /** A question, which the next member is asked if one fails. @throws BackendUnavailableError. */
  async read<M extends keyof Methods>(
    name: M,
    request: Methods[M][0],
    timeoutMs: number,
    what: string,
  ): Promise<Methods[M][1]> {
    return this.#onEach(timeoutMs, what, (tryMs) => this.#callSafely(name, request, tryMs))
  }

  /** Keeps a lease alive, once; sending it twice does no harm. @throws BackendUnavailableError. */
  async keepAlive(id: string, timeoutMs: number): Promise<LeaseAnswer> {
    const ask = (tryMs: number): Promise<LeaseAnswer> => {
      const member = this.#member
      return new Promise<LeaseAnswer>((resolve, reject) => {
        const stream = member.stream(
          'LeaseKeepAlive',
          tryMs,
          (answer) => {
            stream.end()
            resolve(answer)
          },
          (error) => {
            this.#leave(member, error)
            reject(error)
          },
        )
        stream.write({ ID: id })
      })
    }
    return this.#onEach(timeoutMs, 'a keep-alive', ask)
  }

  /** Of the member that is asked at present; `failed` is called at most once, and last. */
  watch(
    request: Streams['Watch'][0],
    answered: (response: Streams['Watch'][1]) => void,
    failed: (error: unknown) => void,
  ): Stream<Streams['Watch'][0]> {
    const member = this.#member
    const stream = member.stream('Watch', Number.POSITIVE_INFINITY, answered, (error) => {
      this.#leave(member, error)
      failed(error)
    })
    stream.write(request)
    return stream
  }

  close(): void {
    this.#isClosed = true
    this.#cancelLook?.()
    for (const member of this.#members) member.close()
  }

  get #isOpen(): boolean {
    return this.#isLoaded && this.#isLoggedIn
  }

  get #isSingle(): boolean {
    return this.#target.endpoints.length === 1
  }

  get #member(): Member {
    return this.#members[this.#current] as Member
  }

  async #onEach<T>(
    timeoutMs: number,
    what: string,
    ask: (tryMs: number) => Promise<T>,
  ): Promise<T> {
    const { length } = this.#target.endpoints
    const untilMs = this.#seams().nowMs() + timeoutMs
    const shareMs = length === 1 ? timeoutMs : Math.max(READ_MS_MIN, timeoutMs / length)
    for (let tries = 1; ; tries++) {
      const leftMs = untilMs - this.#seams().nowMs()
      try {
        if (!this.#isOpen) await this.#open(leftMs)
        return await ask(Math.min(leftMs, shareMs))
      } catch (error) {
        const isOver = tries >= length || this.#seams().nowMs() + READ_MS_MIN > untilMs
        if (isOver || !isMembersFault(error)) throw asUnanswered(error, what)
      }
    }
  }

  /** T2. */
  async #callSafely<M extends keyof Methods>(
    name: M,
    request: Methods[M][0],
    tryMs: number,
  ): Promise<Methods[M][1]> {
    for (let tries = 1; ; tries++) {
      const member = this.#member
      try {
        return await member.call(name, request, tryMs)
      } catch (error) {
        if (this.#target.login !== null && tries === 1 && isLoggedOut(error)) {
          this.#isLoggedIn = false
          await this.#open(tryMs)
          continue
        }
        this.#leave(member, error)
        if (!isUnreachable(error) || tries >= this.#members.length) throw error
      }
    }
  }

  /** Before the first request, and after a login has ended. */
  async #open(timeoutMs: number): Promise<void> {
    this.#opening ??= this.#load().catch((error: unknown) => {
      this.#opening = null
      throw error
    })
    await this.#opening
    this.#isLoaded = true
    if (this.#isLoggedIn) return
    this.#loggingIn ??= this.#logIn(timeoutMs).finally(() => {
      this.#loggingIn = null
    })
    await this.#loggingIn
  }

  async #load(): Promise<void> {
    const { endpoints, tls } = this.#target
    let loaded: typeof import('./member.ts')
    try {
      loaded = await import('./member.ts')
    } catch {
      throw new InvalidArgumentError(
        'driver',
        undefined,
        '@grpc/grpc-js and @grpc/proto-loader, which must be installed, and load; run: ' +
          'npm install @grpc/grpc-js @grpc/proto-loader',
      )
    }
    this.#members = endpoints.map((endpoint) => new loaded.Member(endpoint, tls))
    if (this.#isClosed) for (const member of this.#members) member.close()
    if (!this.#isSingle) await this.#findLeader()
  }

  async #logIn(timeoutMs: number): Promise<void> {
    const { login } = this.#target
    if (login === null) return
    for (let tries = 1; ; tries++) {
      const member = this.#member
      try {
        const { token } = await member.call('Authenticate', login, timeoutMs)
        for (const one of this.#members) one.logIn(token ?? '')
        this.#isLoggedIn = true
        return
      } catch (error) {
        this.#leave(member, error)
        // Whatever became of the login, the request behind it was not sent.
        if (tries >= this.#members.length || !isMembersFault(error)) {
          throw asUnanswered(error, 'the login')
        }
      }
    }
  }

  /** T3. */
  #leave(member: Member, error: unknown): void {
    if (this.#isSingle || this.#member !== member || !isMembersFault(error)) return
    this.#current = (this.#current + 1) % this.#members.length
    this.#looks = 0
    this.#planLook()
  }

  #planLook(): void {
    if (this.#isClosed || this.#cancelLook !== null || this.#looks >= LOOKS_MAX) return
    this.#looks += 1
    this.#cancelLook = this.#seams().after(LOOK_AGAIN_MS, () => {
      this.#cancelLook = null
      void this.#findLeader()
    })
  }

  /** Resolves when a leader has answered, or nobody will. Never rejects. */
  #findLeader(): Promise<void> {
    return new Promise((resolve) => {
      let missing = this.#members.length
      let isFound = false
      const answered = (index: number, answer: StatusResponse | null): void => {
        missing -= 1
        const { leader, header } = answer ?? {}
        const isLeader = leader !== undefined && leader === header?.member_id
        if (isLeader && !this.#isClosed) {
          isFound = true
          this.#current = index
          resolve()
        } else if (missing === 0) {
          if (!isFound) this.#planLook()
          resolve()
        }
      }
      for (const [index, member] of this.#members.entries()) {
        member.call('Status', {}, STATUS_MS_MAX).then(
          (answer) => answered(index, answer),
          () => answered(index, null),
        )
      }
    })
  }
}
