import { describe, expect, it } from 'vitest'
import { childEnv, installEnv } from '../lib/npm-env.mjs'

describe('the environment of nested programs', () => {
  // `npm run -s lab` made the inner install silent, and `--omit=dev` left out the compiler.
  it('has none of the outer npm’s settings', () => {
    const env = {
      PATH: '/bin',
      npm_config_loglevel: 'silent',
      npm_config_json: 'true',
      NPM_CONFIG_OMIT: 'dev',
      npm_config_ignore_scripts: 'true',
      npm_config_prefix: '/usr',
      npm_lifecycle_event: 'lab',
      npm_package_name: 'x',
      npm_command: 'run',
      npm_execpath: '/npm-cli.js',
      INIT_CWD: '/x',
    }

    expect(childEnv(env)).toEqual({ PATH: '/bin' })
  })

  // Behind a company's proxy nothing can be installed without these.
  it('keeps how the registry is reached, in every spelling', () => {
    const env = {
      npm_config_registry: 'http://127.0.0.1:4873',
      NPM_CONFIG_CAFILE: '/ca.pem',
      npm_config_https_proxy: 'a',
      'npm_config_https-proxy': 'b',
      npm_config_proxy: 'c',
      NPM_CONFIG_NOPROXY: 'd',
      npm_config_cache: '/cache',
      'npm_config_//127.0.0.1/:_authToken': 'e',
      'npm_config_@scope:registry': 'f',
      HTTPS_PROXY: 'g',
      NODE_EXTRA_CA_CERTS: '/ca.pem',
    }

    expect(childEnv(env)).toEqual(env)
  })

  it('says nothing of production to an install', () => {
    expect(installEnv({ NODE_ENV: 'production', HOME: '/h' })).toEqual({ HOME: '/h' })
    expect(childEnv({ NODE_ENV: 'production' })).toEqual({ NODE_ENV: 'production' })
  })
})
