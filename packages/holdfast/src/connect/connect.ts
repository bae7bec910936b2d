/** From a URL to locks whose connections are ours. */
import type { Backend } from '../core/backend.ts'
import type { Locks } from '../core/lease.ts'
import { OptionReader, readSignal, TTL_MS_MIN } from '../core/options.ts'
import { createLocks } from '../lock/lock.ts'
import { type DriverSource, installedDrivers } from './drivers.ts'
import { type ConnectOptions, readConnectTimeout, readNames } from './options.ts'
import { SCHEMES } from './schemes.ts'
import { splitUrl } from './url.ts'

/**
 * Opens a store by its URL, and makes locks on it. `close()` or `await using` ends every connection
 * that was opened here, in at most 5 s. Until then one to Redis keeps the process alive; a file does
 * not.
 *
 *     memory:                                                     this process alone
 *     sqlite:path                                                 one host; sqlite:///path too
 *     redis://[[user]:password@]host[:port][/db]                  rediss://… by TLS
 *     redis+unix://[[user]:password@]/path/to/socket[?db=number]
 *     redis+sentinel://[[user]:password@]host[:port][,…]/name[/db]    rediss+sentinel://… by TLS
 *     redis+cluster://[[user]:password@]host[:port][,…]               rediss+cluster://… by TLS
 *     redlock://[[user]:password@]host[:port],…[/db]              redlock+tls://… by TLS
 *     etcd://[user:password@]host[:port][,…]                      etcd+tls://… by TLS
 *
 * Every part is percent-encoded where it has characters of its own meaning. What is wrong with the URL
 * or an option is found before anything is opened. Waits until the store can be used, of Redlock a quorum of its nodes, at most
 * `connectTimeoutMs`; when it fails, nothing stays open. Passwords are in no error, event or message.
 *
 * @throws InvalidArgumentError naming what is wrong and what is allowed; also where no driver is
 *   installed, with the line that installs one.
 * @throws BackendUnavailableError when the store cannot be reached, or refuses; nothing was applied.
 *   When `signal` aborts: its reason.
 */
export function connect(url: string, options: ConnectOptions = {}): Promise<Locks> {
  return connectWith(installedDrivers, url, options)
}

/** For tests: drivers of other versions. Not exported. */
export async function connectWith(
  drivers: DriverSource,
  url: string,
  options: ConnectOptions = {},
): Promise<Locks> {
  const parts = splitUrl(url, Object.keys(SCHEMES))
  const scheme = SCHEMES[parts.scheme] as (typeof SCHEMES)[string]
  const { given, defaults } = readNames(options, parts.query, {
    scheme: parts.scheme,
    options: scheme.options,
    parameters: scheme.parameters,
  })
  readConnectTimeout(given)
  const plan = scheme.read(parts, given)
  // Wrong defaults are found before a connection is made for nothing.
  new OptionReader({ ttlMsMin: TTL_MS_MIN, ttlMsMax: plan.ttlMsMax }, defaults)
  const signal = readSignal(given['signal'])
  signal?.throwIfAborted()
  const { backend, end } = await plan.open(drivers, signal)
  endWith(backend, end)
  try {
    return createLocks(backend, defaults)
  } catch (error) {
    end()
    throw error
  }
}

/** The engine closes a backend with the last locks that use it, so the connections end then too. */
function endWith(backend: Backend, end: () => void): void {
  const close = backend.close.bind(backend)
  backend.close = async () => {
    try {
      await close()
    } finally {
      end()
    }
  }
}
