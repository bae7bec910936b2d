/** etcd by its URL: tried until a member answers, and closed with the locks. */
import { etcdBackend } from '../backends/etcd/etcd-backend.ts'
import { type EtcdOptions, readEtcdOptions } from '../backends/etcd/options.ts'
import type { EtcdTls } from '../clients/etcd/target.ts'
import { after, monotonicMs } from '../core/clock.ts'
import { WITHHELD } from '../core/error-text.ts'
import { BackendUnavailableError, InvalidArgumentError } from '../core/errors.ts'
import { ENDED, reasonOf, withoutSecrets } from './failure.ts'
import { type Given, readConnectTimeout, readTls } from './options.ts'
import { asText, readAuthority } from './redis-target.ts'
import type { Store } from './store.ts'
import { readAddresses, shownPath, type UrlParts } from './url.ts'

export interface EtcdTarget {
  readonly options: EtcdOptions
  /** Without credentials. */
  readonly place: string
  readonly connectTimeoutMs: number
}

const ETCD_PORT = 2379
const RETRY_MS = 100
/** Asked for, so that an etcd that cannot be used is found now and not at the first lock. */
const ANY_NAME = 'connect'

/** @throws InvalidArgumentError naming the part or the option that is wrong. */
export function readEtcdTarget(isTls: boolean, url: UrlParts, given: Given): EtcdTarget {
  const { credentials, hosts } = readAuthority(url, given)
  if (url.path !== '' && url.path !== '/') {
    throw new InvalidArgumentError('url path', shownPath(url.path), 'none: etcd has one key space')
  }
  const endpoints = readAddresses(hosts, ETCD_PORT).map(asText)
  const { keyPrefix, leaseMode } = given as Partial<EtcdOptions>
  const { username, password } = credentials ?? {}
  if (password !== undefined && username === undefined) {
    throw new InvalidArgumentError('username', undefined, 'a name, beside the password')
  }
  const options = { endpoints, keyPrefix, leaseMode, username, password, tls: tlsOf(given, isTls) }
  readEtcdOptions(options)
  const place = `etcd at ${endpoints.join(', ')}`
  return { options, place, connectTimeoutMs: readConnectTimeout(given) }
}

/** gRPC takes the bytes of PEM texts alone. */
function tlsOf(given: Given, isTls: boolean): EtcdTls | undefined {
  const tls = readTls(given, isTls)
  if (tls === null) return undefined
  for (const name of ['passphrase', 'servername', 'rejectUnauthorized']) {
    if (tls[name] === undefined) continue
    throw new InvalidArgumentError(
      `tls.${name}`,
      WITHHELD,
      'none with etcd: ca, cert and key alone',
    )
  }
  return { ca: bytesOf(tls['ca']), cert: bytesOf(tls['cert']), key: bytesOf(tls['key']) }
}

function bytesOf(pem: unknown): Uint8Array | undefined {
  if (pem === undefined) return undefined
  const parts = (Array.isArray(pem) ? pem : [pem]) as (string | Uint8Array)[]
  return Buffer.concat(parts.flatMap((part) => [Buffer.from(part as string), Buffer.from('\n')]))
}

export async function openEtcd(
  target: EtcdTarget,
  signal: AbortSignal | undefined,
): Promise<Store> {
  const { options, connectTimeoutMs } = target
  const backend = etcdBackend(options)
  // The backend's own: connect puts another one in its place, which calls this.
  const close = backend.close.bind(backend)
  const end = (): void => {
    close().catch(() => undefined)
  }
  const untilMs = monotonicMs() + connectTimeoutMs
  let told: unknown
  try {
    for (;;) {
      try {
        await aborted(backend.inspect(ANY_NAME), signal)
        return { backend, end }
      } catch (error) {
        signal?.throwIfAborted()
        const isDown = error instanceof BackendUnavailableError && error.why !== 'no-permission'
        if (!isDown) throw error
        const { isKnown, isFinal } = reasonOf(error)
        if (isFinal) throw failure(target, error, '')
        // What says nothing but that there was no answer says less than what was said before it.
        if (told === undefined || isKnown) told = error
        if (monotonicMs() + RETRY_MS >= untilMs) {
          throw failure(target, told, ` within ${connectTimeoutMs} ms`)
        }
        await new Promise<void>((resolve) => {
          after(RETRY_MS, resolve, true)
        })
      }
    }
  } catch (error) {
    end()
    throw error
  }
}

function failure({ options, place }: EtcdTarget, error: unknown, within: string): unknown {
  if (!(error instanceof BackendUnavailableError) || error.why !== 'down') return error
  // It was answered, and says itself what is wrong.
  if (error.cause === undefined) return error
  const { words } = reasonOf(error)
  const guess = options.tls === undefined ? '; it may want TLS' : '; it may not speak TLS'
  const text = `no connection to ${place}${within}: ${words}${words === ENDED ? guess : ''}`
  const secrets = [options.password ?? '', encodeURIComponent(options.password ?? '')]
  const cause = withoutSecrets(error.cause, secrets)
  return new BackendUnavailableError(error.why, text, cause && { cause })
}

/** Rejects with the reason of the signal as soon as it aborts. */
function aborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work
  return new Promise((resolve, reject) => {
    const onAbort = (): void => reject(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    const end = (): void => signal.removeEventListener('abort', onAbort)
    work.finally(end).then(resolve, reject)
  })
}
