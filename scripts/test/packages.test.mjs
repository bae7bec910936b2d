import { existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { installPackages, stampPath } from '../lib/packages.mjs'
import { createFolder, hideProgress, startNode } from './helpers.mjs'

let root
let installCount

beforeEach(() => {
  hideProgress()
  root = createFolder()
  installCount = 0
  writeLock('1.0.0')
  writeFileSync(join(root, 'package.json'), '{"name":"x","version":"1.0.0"}')
})

afterEach(() => rmSync(root, { recursive: true, force: true }))

function writeLock(version) {
  const packages = { '': { name: 'x', version } }
  const lock = { name: 'x', version, lockfileVersion: 3, requires: true, packages }
  writeFileSync(join(root, 'package-lock.json'), JSON.stringify(lock))
}

async function install() {
  installCount++
  mkdirSync(join(root, 'node_modules'), { recursive: true })
}

describe('the packages', () => {
  it('are installed once per content of the lock file', async () => {
    await installPackages(root, install)
    await installPackages(root, install)
    expect(installCount).toBe(1)

    writeLock('1.0.1')
    await installPackages(root, install)
    await installPackages(root, install)
    expect(installCount).toBe(2)
  })

  // Half the packages are there, and everything that is run fails in some odd way ever after.
  it('are installed again after an install that failed', async () => {
    await installPackages(root, install)
    writeLock('1.0.1')
    const failing = async () => {
      throw new Error('no network')
    }
    await expect(installPackages(root, failing)).rejects.toThrow('no network')
    writeLock('1.0.0') // Back to what was noted before: it is not what is there now.

    await installPackages(root, install)

    expect(installCount).toBe(2)
  })

  it('are installed again after an install that was killed', async () => {
    const run = startNode(
      `const { installPackages } = await lib('packages.mjs')
       const { mkdirSync } = await import('node:fs')
       await installPackages(${JSON.stringify(root)}, async (root) => {
         mkdirSync(root + '/node_modules')
         console.log('installing')
         await new Promise((resolve) => setTimeout(resolve, 300_000))
       })`,
    )
    await run.says('installing')
    run.child.kill('SIGKILL')
    await run.ended

    await installPackages(root, install)

    expect(installCount).toBe(1)
    expect(existsSync(stampPath(root))).toBe(true)
  })

  // `npm run -s` and NODE_ENV=production used to hide or break the inner install.
  it('are installed by a real npm under a silent npm in production', async () => {
    const run = startNode(
      `const { installPackages } = await lib('packages.mjs')
       await installPackages(${JSON.stringify(root)})`,
      {
        env: {
          ...process.env,
          NODE_ENV: 'production',
          npm_config_loglevel: 'silent',
          npm_config_dry_run: 'true',
        },
      },
    )

    expect(await run.ended).toMatchObject({ code: 0, stdout: '' })
    expect(existsSync(stampPath(root))).toBe(true)
  })

  it('are reported with command and output when npm refuses', async () => {
    writeFileSync(join(root, 'package-lock.json'), 'not a lock file')
    const run = startNode(
      `const { installPackages } = await lib('packages.mjs')
       await installPackages(${JSON.stringify(root)})`,
      { env: { ...process.env, npm_config_loglevel: 'silent' } },
    )

    const { code, stderr } = await run.ended

    expect(code).toBe(1)
    expect(stderr).toContain('npm ci --include=dev --loglevel=error')
    expect(stderr).toContain('npm error')
    expect(existsSync(stampPath(root))).toBe(false)
  })
})
