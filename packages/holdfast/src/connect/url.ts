/**
 * URLs of stores, taken apart.
 *
 * Not by `new URL`: it refuses a list of hosts, which Sentinels and clusters need, and its errors hold
 * the whole text. A URL may hold a password, so no message of ours repeats more of it than a part in
 * which a password cannot stand, wherever the writer forgot to encode it.
 */
import { isIPv6 } from 'node:net'
import { kindOf, WITHHELD } from '../core/error-text.ts'
import { InvalidArgumentError } from '../core/errors.ts'

const URL_LENGTH_MAX = 4096
const HOSTS_MAX = 64

export interface UrlParts {
  /** Lower case, without the colon. */
  readonly scheme: string
  /** What stands between `//` and the next `/`; null where there is no `//`. */
  readonly authority: string | null
  /** As written: still encoded. */
  readonly path: string
  readonly query: ReadonlyMap<string, string>
}

export interface Address {
  /** A name or an address; of IPv6 without brackets. */
  readonly host: string
  readonly port: number
}

export interface Credentials {
  /** Undefined: Redis' own `default`. */
  readonly username: string | undefined
  readonly password: string
}

/**
 * @param schemes The known ones, for the message.
 * @throws InvalidArgumentError naming the part that is wrong.
 */
export function splitUrl(url: unknown, schemes: readonly string[]): UrlParts {
  const known = schemes.map((one) => `${one}:`).join(', ')
  if (typeof url !== 'string') {
    throw new InvalidArgumentError('url', kindOf(url), `text that begins with ${known}`)
  }
  const isPlain = url.length <= URL_LENGTH_MAX && url.isWellFormed()
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for.
  if (!isPlain || /[\0-\x1f\x7f]/.test(url)) {
    const allowed = `well-formed text of up to ${URL_LENGTH_MAX} characters without control characters`
    throw new InvalidArgumentError('url', WITHHELD, allowed)
  }
  const [, scheme = '', rest = ''] = /^([A-Za-z][A-Za-z0-9+.-]*):(.*)$/.exec(url) ?? []
  if (!schemes.includes(scheme.toLowerCase())) {
    throw new InvalidArgumentError('url', shownScheme(url, scheme, rest), `one of ${known}`)
  }
  if (rest.includes('#')) {
    throw new InvalidArgumentError('url', '#', 'a URL without "#"; inside of a part write %23')
  }
  const [before = '', ...queries] = rest.split('?')
  if (queries.length > 1) {
    throw new InvalidArgumentError('url', '?', 'one "?" at most; inside of a part write %3F')
  }
  const [, authority = null, path = before] = /^\/\/([^/]*)(.*)$/.exec(before) ?? []
  return { scheme: scheme.toLowerCase(), authority, path, query: readQuery(queries[0]) }
}

/** Of a URL whose scheme is not known. */
function shownScheme(url: string, scheme: string, rest: string): string {
  // In "user:password@host" what stands before the colon is no scheme.
  if (scheme !== '' && (rest.startsWith('//') || !rest.includes('@'))) return `${scheme}:`
  if (url === '') return url
  return url.includes(':') ? WITHHELD : '(without a scheme)'
}

function readQuery(text: string | undefined): Map<string, string> {
  const found = new Map<string, string>()
  for (const pair of text ? text.split('&') : []) {
    const [name = '', ...values] = pair.split('=')
    // With an "@" in it, what looks like a query may be the rest of a password.
    if (text?.includes('@') || values.length !== 1) {
      const allowed = 'name=value pairs with & between them; inside of a value write %3D, %26, %40'
      throw new InvalidArgumentError('url query', WITHHELD, allowed)
    }
    if (found.has(name)) throw new InvalidArgumentError('url query', name, 'each name once')
    found.set(name, decoded(`url query ${name}`, values[0] as string))
  }
  return found
}

/** A path where no password belongs: with an "@" in it, it may be the URL of another store. */
export function shownPath(path: string): string {
  return path.includes('@') ? WITHHELD : path
}

/** @throws InvalidArgumentError which does not repeat the text. */
export function decoded(part: string, text: string): string {
  try {
    const plain = decodeURIComponent(text)
    if (!plain.includes('\0')) return plain
  } catch {
    // Told below, without the text.
  }
  const allowed = 'percent-encoded UTF-8 without NUL; a percent sign itself is %25'
  throw new InvalidArgumentError(part, WITHHELD, allowed)
}

/** `user:password@`, before hosts. */
export function readCredentials(authority: string): {
  credentials: Credentials | null
  rest: string
} {
  const end = authority.lastIndexOf('@')
  if (end < 0) return { credentials: null, rest: authority }
  const [user = '', ...more] = authority.slice(0, end).split(':')
  const password = decoded('url password', more.join(':'))
  const username = decoded('url user name', user)
  if (password === '') {
    const allowed = 'user:password@, or :password@ for the default user'
    throw new InvalidArgumentError('url password', undefined, allowed)
  }
  const credentials = { username: username === '' ? undefined : username, password }
  return { credentials, rest: authority.slice(end + 1) }
}

/** `host[:port]`, with commas between several. */
export function readAddresses(text: string, portDefault: number): Address[] {
  const parts = text.split(',')
  if (parts.length > HOSTS_MAX) {
    throw new InvalidArgumentError('url host', `${parts.length} hosts`, `1 to ${HOSTS_MAX}`)
  }
  return parts.map((part) => readAddress(part, portDefault))
}

function readAddress(text: string, portDefault: number): Address {
  const [, bracketed, plain = '', port] =
    /^(?:\[([^[\]]*)\]|([^:[\]]*))(?::(.*))?$/.exec(text) ?? []
  const isHost = bracketed === undefined ? /^[A-Za-z0-9._-]{1,253}$/.test(plain) : isIPv6(bracketed)
  // A password whose "@" was forgotten stands where a port would: only digits are repeated.
  if (isHost && (port === undefined || /^\d{1,5}$/.test(port))) {
    const number = port === undefined ? portDefault : Number(port)
    if (number >= 1 && number <= 65_535) return { host: bracketed ?? plain, port: number }
    throw new InvalidArgumentError('url port', number, 'a number from 1 to 65535')
  }
  if (isHost) throw new InvalidArgumentError('url port', WITHHELD, 'a number from 1 to 65535')
  const allowed =
    'a name of letters, digits, ".", "_" and "-", an IPv4 address, or [an IPv6 address]'
  const shown = port === undefined && text.length < 64 && !text.includes(':') ? text : WITHHELD
  throw new InvalidArgumentError('url host', shown, allowed)
}
