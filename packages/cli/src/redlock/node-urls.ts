/** Nodes as they stand on a command line: `name=redis://user:password@host:port/db`. */

/** Where a node is, and who we are there. */
export interface NodeUrl {
  readonly name: string
  readonly host: string
  readonly port: number
  readonly db: number
  readonly isTls: boolean
  /** '' for none. */
  readonly username: string
  readonly password: string
}

const PORT_DEFAULT = 6379

/**
 * @param env Has user and password of those whose URL has none.
 * @throws Error naming the node; no text of the URL, which may be a password, is part of it.
 */
export function readNodeUrls(
  texts: readonly string[],
  env: Readonly<Record<string, string | undefined>> = process.env,
): NodeUrl[] {
  const found = texts.map((text) => readNodeUrl(text, env))
  for (const [place, { name }] of found.entries()) {
    const isTwice = found.findIndex((other) => other.name === name) < place
    if (isTwice) throw new Error(`node '${name}' is given twice`)
  }
  return found
}

function readNodeUrl(text: string, env: Readonly<Record<string, string | undefined>>): NodeUrl {
  const parts = /^([^=:/@]+)=(.+)$/s.exec(text)
  if (parts === null) throw new Error('a node is not of the form name=redis://host:port')
  const [, name = '', address = ''] = parts
  const wrong = (what: string): Error => new Error(`the URL of node '${name}' ${what}`)
  const url = parsed(address)
  if (url === null)
    throw wrong('cannot be read; in passwords / is %2F, ? is %3F, # is %23, @ is %40')
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') {
    throw wrong('does not begin with redis:// or rediss://')
  }
  if (url.hostname === '') throw wrong('has no host')
  if (url.search !== '' || url.hash !== '') throw wrong('has more than a host, a port and a number')
  const db = /^\/?(\d{0,6})\/?$/.exec(url.pathname)?.[1]
  if (db === undefined) throw wrong('goes on with something else than the number of a database')
  const inUrl = credentials(url)
  if (inUrl === null) throw wrong('has a % that does not stand before two hexadecimal digits')
  const [username, password] = inUrl
  return {
    ...{ name, host: url.hostname.replace(/^\[(.*)\]$/, '$1'), db: Number(db) },
    port: url.port === '' ? PORT_DEFAULT : Number(url.port),
    isTls: url.protocol === 'rediss:',
    username: username || (password === '' ? (env['HOLDFAST_REDIS_USERNAME'] ?? '') : ''),
    password: password || (env['HOLDFAST_REDIS_PASSWORD'] ?? ''),
  }
}

function parsed(address: string): URL | null {
  try {
    return new URL(address)
  } catch {
    return null
  }
}

function credentials({ username, password }: URL): [string, string] | null {
  try {
    return [decodeURIComponent(username), decodeURIComponent(password)]
  } catch {
    return null
  }
}
