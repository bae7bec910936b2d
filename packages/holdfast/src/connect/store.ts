/** A store that was opened for one `connect`, and what a scheme is. */
import type { Backend } from '../core/backend.ts'
import type { DriverSource } from './drivers.ts'
import type { Given, Names } from './options.ts'
import type { UrlParts } from './url.ts'

export interface Store {
  readonly backend: Backend
  /** Ends every connection, at once; never throws. */
  end(): void
}

/** A URL and options that were read and found right. */
export interface Plan {
  /** The longest TTL of the backend that it will be. */
  readonly ttlMsMax: number
  /** @throws Whatever keeps it from being opened; then nothing of it stays open. */
  open(drivers: DriverSource, signal: AbortSignal | undefined): Promise<Store>
}

export interface Scheme extends Omit<Names, 'scheme'> {
  /** @throws InvalidArgumentError naming what is wrong. */
  read(url: UrlParts, given: Given): Plan
}
