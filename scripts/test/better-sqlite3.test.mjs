import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { whyNotLoaded } from '../lib/better-sqlite3.mjs'
import { createFolder, startNode } from './helpers.mjs'

const BUILT = 'node_modules/better-sqlite3/build/Release'

let folder
let root
let cache
let tools

beforeEach(() => {
  folder = createFolder()
  root = join(folder, 'root')
  cache = join(folder, 'cache')
  tools = join(folder, 'tools')
  const locked = { version: '12.11.1', engines: { node: '20.x || 22.x' } }
  const lock = { packages: { 'node_modules/better-sqlite3': locked } }
  writeText('root/package-lock.json', JSON.stringify(lock))
  // What the other version of Node is unpacked to: the program, and its headers beside it.
  writeText('node/include/node/node.h', '')
  writeProgram('node/bin/node', 'echo "$@" >>"$(dirname "$0")/ran"')
  for (const name of ['sh', 'mkdir', 'dirname', 'env', 'cat']) linkTool(name)
})

afterEach(() => rmSync(folder, { recursive: true, force: true }))

function writeText(path, text) {
  mkdirSync(dirname(join(folder, path)), { recursive: true })
  writeFileSync(join(folder, path), text)
}

function writeProgram(path, text) {
  writeText(path, `#!/bin/sh\n${text}\n`)
  chmodSync(join(folder, path), 0o755)
}

function linkTool(name) {
  writeProgram(`tools/${name}`, `exec /bin/${name} "$@"`)
}

/** Asks for the program with nothing in PATH but what the test has put there. */
function find(major, env = {}) {
  const wanted = { root, major, bin: join(folder, 'node/bin') }
  return startNode(
    `const { findForOtherNode, NotToBeHadError } = await lib('better-sqlite3.mjs')
     try {
       console.log(await findForOtherNode(${JSON.stringify(wanted)}))
     } catch (error) {
       console.log((error instanceof NotToBeHadError ? 'not to be had: ' : 'failed: ') + error.message)
     }`,
    { env: { HOLDFAST_CACHE: cache, PATH: tools, ...env } },
  ).ended
}

/** An npm that leaves behind what the real one does, and what it was told. */
function installsProgram(file = 'better_sqlite3.node') {
  const built = `"$3/${BUILT}"`
  return `env >"${folder}/seen"; echo "$@" >>"${folder}/calls"
    mkdir -p ${built}; echo program >${built}/${file}`
}

describe('better-sqlite3 for another version of Node', () => {
  // A user's own `nodedir` gave the headers of Node 20 to a program for Node 22.
  it('is compiled once, under that Node and with its headers, and kept alone', async () => {
    writeProgram('tools/npm', installsProgram())
    const env = { npm_config_nodedir: '/usr', npm_config_loglevel: 'silent' }

    const first = await find(22, env)
    const second = await find(22, env)

    const path = join(cache, `better-sqlite3-12.11.1-node-22-${process.arch}/better_sqlite3.node`)
    expect(first).toMatchObject({ stdout: `${path}\n`, code: 0 })
    expect(second).toMatchObject({ stdout: `${path}\n`, stderr: '', code: 0 })
    expect(readdirSync(dirname(path))).toEqual(['better_sqlite3.node'])
    const seen = readFileSync(join(folder, 'seen'), 'utf8')
    expect(seen).toContain(`npm_config_nodedir=${join(folder, 'node')}\n`)
    expect(seen).toContain(`PATH=${join(folder, 'node/bin')}:${tools}\n`)
    expect(seen).toMatch(/^CFLAGS=-O0$/m)
    const calls = readFileSync(join(folder, 'calls'), 'utf8').trim().split('\n')
    expect(calls).toHaveLength(1)
    expect(calls[0]).toMatch(/ better-sqlite3@12\.11\.1$/)
    // It was loaded by the Node that it is for.
    expect(readFileSync(join(folder, 'node/bin/ran'), 'utf8')).toContain(BUILT)
  })

  it('is not asked for where its version does not name that Node', async () => {
    const { stdout } = await find(26)

    expect(stdout).toBe('not to be had: better-sqlite3 12.11.1 is not made for Node 26\n')
    expect(existsSync(cache)).toBe(false)
  })

  // Without compiler and network nothing is wrong with what is tested, and the gate may be green.
  it('is not to be had where nothing can compile it', async () => {
    writeProgram('tools/npm', 'echo "npm error no network" >&2; exit 1')
    linkTool('make')

    const { stdout } = await find(22)

    expect(stdout).toContain('not to be had: npm could not install better-sqlite3 12.11.1')
    expect(stdout).toContain('there is no c++, no python3 to compile it with')
  })

  it.each([
    [
      'npm fails although there is a compiler',
      'echo "cannot compile" >&2; exit 1',
      'cannot compile',
    ],
    ['npm runs no install script', 'exit 0', 'npm ran no install script of better-sqlite3'],
  ])('is a failure when %s, and nothing is left of it', async (_, npm, complaint) => {
    writeProgram('tools/npm', npm)
    for (const name of ['c++', 'make', 'python3']) linkTool(name)

    const { stdout } = await find(22)

    expect(stdout).toMatch(/^failed: /)
    expect(stdout).toContain(complaint)
    expect(readdirSync(cache)).toEqual([])
  })

  // A program that does not load would fail every test, and stay in the cache.
  it('does not count when that Node cannot load it', async () => {
    writeProgram('tools/npm', installsProgram())
    writeProgram('node/bin/node', 'echo "wrong ELF class" >&2; exit 1')

    const { stdout } = await find(22)

    expect(stdout).toMatch(/^failed: .*wrong ELF class/s)
    expect(readdirSync(cache)).toEqual([])
  })
})

describe('better-sqlite3 for this Node', () => {
  it('loads where it was installed for it', () => {
    installPackage('module.exports = class { close() {} }')
    expect(whyNotLoaded(root)).toBe(null)
  })

  it('that is of another version says so', () => {
    const text = 'The module was compiled for NODE_MODULE_VERSION 1\\nand more'
    installPackage(`module.exports = class { constructor() { throw new Error('${text}') } }`)
    const message =
      'better-sqlite3 does not load: The module was compiled for NODE_MODULE_VERSION 1'
    expect(whyNotLoaded(root)?.message).toBe(message)
  })

  // npm takes an optional package away again when it cannot be compiled, and ends well.
  it('that npm could not install is had by another install', async () => {
    const run = startNode(
      `const { NotToBeHadError, whyNotLoaded } = await lib('better-sqlite3.mjs')
       const why = whyNotLoaded(${JSON.stringify(root)})
       console.log(why instanceof NotToBeHadError, why.message)`,
      { env: { PATH: tools } },
    )

    expect((await run.ended).stdout).toBe(
      'true npm could not install better-sqlite3, and there is no c++, no make, no python3 ' +
        'to compile it with; run `npm install` when it can be\n',
    )
  })

  // `nvm use 22` after an install under Node 20: everything that opens a file would fail.
  it('is built anew where it was installed under another Node', async () => {
    writeProgram('tools/npm', `echo "$@" >>"${folder}/calls"`)
    installPackage(
      "module.exports = class { constructor() { throw new Error('NODE_MODULE_VERSION') } }",
    )
    const mend = startNode(
      `const { mendForThisNode } = await lib('better-sqlite3.mjs')
       await mendForThisNode(${JSON.stringify(root)})`,
      { env: { PATH: tools } },
    )

    expect(await mend.ended).toMatchObject({ code: 0, stdout: '' })
    expect(readFileSync(join(folder, 'calls'), 'utf8')).toMatch(/^rebuild better-sqlite3 /)
  })
})

function installPackage(program) {
  writeText('root/package.json', '{}')
  writeText('root/node_modules/better-sqlite3/index.js', program)
}
