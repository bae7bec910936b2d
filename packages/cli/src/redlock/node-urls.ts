/**
 * Nodes as they stand on a command line: each as `name=redis://user:password@host:port/db`, or all as the
 * one `redlock://user:password@host:port,host:port/db` that programs give to `connect`.
 */
import { quoted } from '../quoted.ts'

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
const PORT_MAX = 65_535
const NAME_LENGTH_MAX = 64

const SET = /^redlock(?:\+tls)?:/i
const SET_PARTS = /^redlock(\+tls)?:\/\/(?:([^/?#]*)@)?([^/?#@]*)(\/[^?#@]*)?$/i
const SET_HOST = /^([\w.-]{1,253}|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/i
/** The scheme ends the name, in which `connect` puts a colon; a URL with a password is no name. */
const NODE = /^(.+?)=(rediss?:\/\/.*)$/is
const NO_NAME = /:\/\/|:.*@/s
const NODE_BY_ANOTHER_SCHEME = /^([^=:/@]+)=(.+)$/s

/**
 * @param env Has user and password of those whose URL has none.
 * @throws Error with the argument, in which nothing is left that may be a password.
 */
export function readNodeUrls(
  texts: readonly string[],
  env: Readonly<Record<string, string | undefined>> = process.env,
): NodeUrl[] {
  const set = texts.find((text) => SET.test(text))
  if (set !== undefined && texts.length > 1) {
    throw new Error(`${quoted(set)} stands for all nodes: nothing is given beside it`)
  }
  const found = (set === undefined ? texts : nodesOfSet(set)).map((text) => readNodeUrl(text, env))
  for (const [place, { name }] of found.entries()) {
    const isTwice = found.findIndex((other) => other.name === name) < place
    if (isTwice) throw new Error(`node '${name}' is given twice`)
  }
  return found
}

function readNodeUrl(text: string, env: Readonly<Record<string, string | undefined>>): NodeUrl {
  const parts = NODE.exec(text) ?? NODE_BY_ANOTHER_SCHEME.exec(text)
  if (parts === null || NO_NAME.test(parts[1] ?? '')) {
    throw new Error(
      `${quoted(text)} is not of the form name=redis://host:port, or redlock://host:port,host:port`,
    )
  }
  const [, name = '', address = ''] = parts
  const wrong = (what: string): Error =>
    new Error(`the URL of node '${name}' ${what}: ${quoted(text)}`)
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

/** Each node by the name that `connect` gives it, in the form of one node. */
function nodesOfSet(text: string): string[] {
  const wrong = (what: string): Error => new Error(`${quoted(text)} ${what}`)
  if (text.includes('?')) throw wrong('has parameters: the key prefix is said by --prefix')
  const parts = SET_PARTS.exec(text)
  if (parts === null) {
    throw wrong(
      'is not of the form redlock://host:port,host:port; in passwords / is %2F, ? is %3F, # is %23, @ is %40',
    )
  }
  const [, tls, user, hosts = '', path = ''] = parts
  return hosts.split(',').map((one) => {
    const [, host = '', given = String(PORT_DEFAULT)] = SET_HOST.exec(one) ?? []
    const port = Number(given)
    if (host === '' || port < 1 || port > PORT_MAX)
      throw wrong('has a host that is not of the form host:port')
    const name = `${host}:${port}`.toLowerCase()
    if (name.length > NAME_LENGTH_MAX)
      throw wrong(`has a node of more than ${NAME_LENGTH_MAX} characters`)
    const before = user === undefined ? '' : `${user}@`
    return `${name}=redis${tls === undefined ? '' : 's'}://${before}${host}:${port}${path}`
  })
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
