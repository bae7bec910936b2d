/** One member of etcd: a channel to it, and what is sent by it. The only file that uses gRPC. */
import { isIP } from 'node:net'
// As namespaces: whoever bundles a program without etcd has neither, and a bundler looks for named exports.
import * as grpc from '@grpc/grpc-js'
import * as loader from '@grpc/proto-loader'
import { wallMs } from '../../core/clock.ts'
import { DESCRIPTOR } from './descriptor.ts'
import type { Methods, Streams } from './messages.ts'
import type { EtcdTls } from './target.ts'

/** With an alias `Long` or a number in its place a revision above 2^53 would be rounded. */
const DEFINITION = loader.fromJSON(DESCRIPTOR as Parameters<typeof loader.fromJSON>[0], {
  keepCase: true,
  longs: String,
  arrays: false,
})

const SERVICES: Readonly<Record<keyof Methods | keyof Streams, string>> = {
  Range: 'KV',
  Txn: 'KV',
  LeaseGrant: 'Lease',
  LeaseRevoke: 'Lease',
  LeaseTimeToLive: 'Lease',
  LeaseKeepAlive: 'Lease',
  Watch: 'Watch',
  Status: 'Maintenance',
  Authenticate: 'Auth',
}

type Definition = loader.MethodDefinition<object, object>
type Calls = Readonly<Record<string, Definition>>

const CALLS: Calls = Object.fromEntries(
  Object.entries(SERVICES).map(([name, service]) => {
    const methods = DEFINITION[`etcdserverpb.${service}`] as unknown as Calls
    return [name, methods[name] as Definition]
  }),
)

/**
 * A connection of its own, so that two backends in one process fail apart; no proxy of the environment,
 * which is for web pages. A server ends a connection that pings more often than every 5 s.
 */
const CHANNEL_OPTIONS = {
  'grpc.use_local_subchannel_pool': 1,
  'grpc.enable_http_proxy': 0,
  'grpc.enable_retries': 0,
  'grpc.service_config_disable_resolution': 1,
  'grpc.keepalive_time_ms': 10_000,
  'grpc.keepalive_timeout_ms': 3_000,
  'grpc.initial_reconnect_backoff_ms': 100,
  'grpc.min_reconnect_backoff_ms': 100,
  'grpc.max_reconnect_backoff_ms': 1_000,
  'grpc.max_receive_message_length': -1,
}

const NOBODY = new grpc.Metadata()

export interface Stream<Request> {
  write(request: Request): void
  /** No callback is called any more. */
  end(): void
}

export class Member {
  /** `host:port`. */
  readonly endpoint: string
  readonly #client: grpc.Client
  /** Of the login, when there is one. */
  #metadata: grpc.Metadata = new grpc.Metadata()

  constructor(endpoint: string, tls: EtcdTls | null) {
    this.endpoint = endpoint
    this.#client = new grpc.Client(endpoint, credentialsOf(tls, endpoint), CHANNEL_OPTIONS)
  }

  logIn(token: string): void {
    this.#metadata = new grpc.Metadata()
    this.#metadata.set('token', token)
  }

  /**
   * Rejects with what has the `code`, `details` and `metadata` of grpc-js' `ServiceError`. After
   * `timeoutMs` the member is told to stop, too.
   *
   * By the channel, as grpc-js' own client does it: what that adds, interceptors that nobody has set and a
   * stack trace in case that the call fails, takes a sixth of the processor time of an acquire and release.
   */
  call<M extends keyof Methods>(
    name: M,
    request: Methods[M][0],
    timeoutMs: number,
  ): Promise<Methods[M][1]> {
    const { path, requestSerialize, responseDeserialize } = CALLS[name] as Definition
    return new Promise((resolve, reject) => {
      const message = requestSerialize(request)
      const deadline = wallMs() + timeoutMs
      const call = this.#client.getChannel().createCall(path, deadline, null, null, null)
      let answer: Buffer | null = null
      // With a login that is over etcd refuses even the next login.
      call.start(name === 'Authenticate' ? NOBODY : this.#metadata, {
        onReceiveMetadata: ignore,
        onReceiveMessage: (bytes: Buffer) => {
          answer = bytes
        },
        onReceiveStatus: (status) => {
          try {
            if (status.code === grpc.status.OK) resolve(responseDeserialize(whole(answer)))
            else reject(callError(status))
          } catch (error) {
            // It has been done, or not: as after a lost answer.
            const { message: details } = error as Error
            reject(callError({ ...status, code: grpc.status.INTERNAL, details }))
          }
        },
      })
      call.startRead()
      call.sendMessageWithContext({}, message)
      call.halfClose()
    })
  }

  /** @param timeoutMs Infinity: until it is ended. `failed` is called at most once, and last. */
  stream<S extends keyof Streams>(
    name: S,
    timeoutMs: number,
    answered: (response: Streams[S][1]) => void,
    failed: (error: unknown) => void,
  ): Stream<Streams[S][0]> {
    const { path, requestSerialize, responseDeserialize } = CALLS[name] as Definition
    const options = timeoutMs === Number.POSITIVE_INFINITY ? {} : { deadline: wallMs() + timeoutMs }
    const stream: grpc.ClientDuplexStream<object, object> = this.#client.makeBidiStreamRequest(
      path,
      requestSerialize,
      responseDeserialize,
      this.#metadata,
      options,
    )
    let isOver = false
    const fail = (error: unknown): void => {
      if (isOver) return
      isOver = true
      failed(error)
    }
    stream.on('data', (response: object) => {
      if (!isOver) answered(response as Streams[S][1])
    })
    stream.on('error', fail)
    stream.on('end', () => fail(new Error('the member ended the stream')))
    return {
      write: (request) => void stream.write(request),
      end() {
        isOver = true
        stream.cancel()
      },
    }
  }

  close(): void {
    this.#client.close()
  }
}

function ignore(): void {}

function whole(answer: Buffer | null): Buffer {
  if (answer === null) throw new Error('the member says that all is well, and no more')
  return answer
}

function callError(status: grpc.StatusObject): Error {
  return Object.assign(new Error(`${status.code}: ${status.details}`), status)
}

function credentialsOf(tls: EtcdTls | null, endpoint: string): grpc.ChannelCredentials {
  if (tls === null) return grpc.credentials.createInsecure()
  const bytes = (part: Uint8Array | undefined): Buffer | null =>
    part === undefined ? null : Buffer.from(part)
  const made = grpc.credentials.createSsl(bytes(tls.ca), bytes(tls.key), bytes(tls.cert))
  return isIP(hostOf(endpoint)) === 0 ? made : withoutServerName(made)
}

function hostOf(endpoint: string): string {
  return endpoint.slice(0, endpoint.lastIndexOf(':')).replace(/^\[|\]$/g, '')
}

/**
 * gRPC names the host to the server even where it is an address, which RFC 6066 (section 3) forbids and Node warns
 * of (DEP0123). Without that name Node checks the certificate against the host, which is the same address. A
 * version of gRPC that is built in another way is left as it is: then the warning comes.
 */
function withoutServerName(credentials: grpc.ChannelCredentials): grpc.ChannelCredentials {
  const make = credentials._createSecureConnector?.bind(credentials)
  if (!make) return credentials
  credentials._createSecureConnector = (...args) => {
    const connector = make(...args)
    const { connectionOptions } = connector as { connectionOptions?: { servername?: string } }
    if (connectionOptions) connectionOptions.servername = ''
    return connector
  }
  return credentials
}
