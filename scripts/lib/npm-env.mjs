/**
 * The environment of programs that this script starts.
 *
 * npm tells a script its own settings as `npm_config_*`, and an npm started in that script takes
 * them for the user's: `npm run -s` makes the inner install silent, `--json` makes it print JSON,
 * `--omit=dev` makes it leave out the compiler. So they go, except those that say how the registry
 * is reached.
 */
import { existsSync, realpathSync } from 'node:fs'
import { dirname, join } from 'node:path'

/** Compared without case, and with `-` for `_`, because npm takes every spelling. */
const KEPT = new Set([
  'registry',
  'cafile',
  'ca',
  'proxy',
  'https-proxy',
  'http-proxy',
  'noproxy',
  'cache',
  'userconfig', // Holds the credentials of a private registry.
])

const PREFIX = /^npm_config_/i

/** Without npm's settings, and without what a script knows about the npm that started it. */
export function childEnv(env) {
  return Object.fromEntries(Object.entries(env).filter(([name]) => isForChildren(name)))
}

function isForChildren(name) {
  if (PREFIX.test(name)) {
    const setting = name.replace(PREFIX, '')
    // Credentials and scopes: npm_config_//host/:_authToken, npm_config_@scope:registry.
    if (setting.startsWith('//') || setting.startsWith('@')) return true
    return KEPT.has(setting.toLowerCase().replaceAll('_', '-'))
  }
  return (
    !/^npm_(lifecycle|package|command|execpath|node_execpath)/.test(name) && name !== 'INIT_CWD'
  )
}

/** For `npm ci` and `npm install`: a production environment would leave out the compiler. */
export function installEnv(env) {
  const { NODE_ENV, ...rest } = childEnv(env)
  return rest
}

/**
 * For an install that may compile something for that Node: with the headers that lie beside it. So it
 * needs no download, and a `nodedir` among the user's settings, which is right for one Node, does not
 * give those of another version.
 */
export function compilingEnv(env, node) {
  const prefix = dirname(dirname(realpathSync(node)))
  const hasHeaders = existsSync(join(prefix, 'include/node/node.h'))
  return { ...installEnv(env), ...(hasHeaders && { npm_config_nodedir: prefix }) }
}

/** What every install of ours says: all kinds of packages, errors only, no reports. */
export const INSTALL_FLAGS = ['--include=dev', '--loglevel=error', '--no-audit', '--no-fund']
