/**
 * What passes between a holder and its etcd, as the proxy sees it: the lab's own account of when the session
 * of a lock was kept alive.
 *
 * All locks of a process lie on one session, so one keep-alive renews them all. A place names its session, in
 * the key that is written when the lock is asked for. A keep-alive is noted as it passes, before it is handed
 * on, so etcd cannot have seen it earlier: the TTL that it starts ends no earlier than that moment plus what
 * the session was granted.
 */
import type { FaultProxy } from 'holdfast/testkit'
import { monotonicUs } from '../../time.ts'
import type { Trial } from '../../trial.ts'
import type { HeldLock } from './holder.ts'
import { Http2Data, numbersIn } from './http2-data.ts'

/** Fields of etcd's messages (rpc.proto of 3.4): of a LeaseKeepAliveRequest, and of its answer. */
const ASKED_ID = 1
const ANSWERED_TTL = 3

/** What has passed of one connection. */
interface Connection {
  readonly toServer: Http2Data
  readonly toClient: Http2Data
  /** Keep-alives without an answer, by their streams. */
  readonly open: Map<number, { readonly session: bigint; readonly atUs: number }>
}

export function noteKeepAlives(trial: Trial, proxy: FaultProxy, locks: readonly HeldLock[]): void {
  const sessions = new Map<number, bigint>()
  const connections = new Map<number, Connection>()
  const open = (): Connection => {
    const asked: Connection['open'] = new Map()
    const toServer = new Http2Data(true, (stream, message) => {
      for (const [round, session] of placesIn(message, locks)) sessions.set(round, session)
      const session = askedToLive(message)
      if (session !== null) asked.set(stream, { session, atUs: monotonicUs() })
    })
    const toClient = new Http2Data(false, (stream, message) => {
      const request = asked.get(stream)
      if (request === undefined) return
      asked.delete(stream)
      // Of a session that is over the answer has no TTL.
      const answer = (numbersIn(message)?.get(ANSWERED_TTL) ?? 0n) > 0n ? 'ok' : 'over'
      for (const [round, session] of sessions) {
        if (session === request.session) trial.note(round, 'kept', request.atUs, { answer })
      }
    })
    return { toServer, toClient, open: asked }
  }
  proxy.onBytes = (direction, bytes, { id }) => {
    const connection = connections.get(id) ?? open()
    connections.set(id, connection)
    connection[direction].take(bytes)
  }
}

/** The session that is to be kept alive; null: it is another message. No other one is a number alone. */
function askedToLive(message: Uint8Array): bigint | null {
  const fields = numbersIn(message)
  return fields?.size === 1 ? (fields.get(ASKED_ID) ?? null) : null
}

/** By their rounds: the locks whose places are in a message, and the sessions that those are on. */
function placesIn(message: Buffer, locks: readonly HeldLock[]): [number, bigint][] {
  const text = message.toString('latin1')
  return locks.flatMap(({ name, round }): [number, bigint][] => {
    const at = text.indexOf(`${name}/`)
    const hex =
      at < 0 ? undefined : /^[0-9a-f]{1,16}(?=\/)/.exec(text.slice(at + name.length + 1))?.[0]
    return hex === undefined ? [] : [[round, BigInt(`0x${hex}`)]]
  })
}
