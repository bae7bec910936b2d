/** The package inside a bundle, and beside a second copy of itself. */
import { cpSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { emptyFolder, packedTarballs, ROOT, run, runNode, unpacked } from './folders.ts'

const { holdfast } = packedTarballs()

const PROGRAM = `
import { createLocks, LockError, LockHeldError, memoryBackend } from 'holdfast'
import { connect } from 'holdfast/connect'
import { redisBackend } from 'holdfast/redis'

const locks = createLocks(memoryBackend())
const lease = await locks.acquire('a')
const error = await locks.acquire('a', { waitMs: 10 }).catch((reason) => reason)
const other = await import(process.argv[2])
const told = [LockError, LockHeldError, other.LockError, other.LockHeldError].map((one) => error instanceof one)
const strange = error instanceof other.StaleTokenError
await lease.release()
await locks.close()
const opened = await connect('memory:')
await opened.close()
const missing = await connect('redis://127.0.0.1').catch(({ message }) => message)
console.log(JSON.stringify({ told, strange, redis: typeof redisBackend, missing }))
`

// The accidents: a file beside the package is looked for at run time and is not in the bundle; and a
// library that brings a copy of its own throws errors that the program does not recognise; and a driver
// that nobody has keeps a bundle from being made.
it('a bundle works, and knows the errors of a copy that is not in it', async () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'package.json'), '{"private": true, "type": "module"}\n')
  writeFileSync(join(folder, 'main.js'), PROGRAM)
  mkdirSync(join(folder, 'node_modules'))
  const copy = join(folder, 'node_modules/holdfast')
  cpSync(await unpacked(holdfast), copy, { recursive: true })
  const vite = join(ROOT, 'node_modules/vite/bin/vite.js')
  const args = ['build', '--ssr', 'main.js', '--outDir', 'bundle', '--logLevel', 'error']
  writeFileSync(join(folder, 'vite.config.js'), 'export default { ssr: { noExternal: true } }\n')
  const built = await run(folder, process.execPath, [vite, ...args])
  expect(built, built.output).toMatchObject({ code: 0 })

  const files = readdirSync(join(folder, 'bundle')).filter((name) => name.endsWith('.js'))
  const bundle = files.map((name) => readFileSync(join(folder, 'bundle', name), 'utf8')).join('\n')
  expect(bundle).not.toMatch(/from ['"]holdfast/)
  const moved = emptyFolder()
  cpSync(join(folder, 'bundle'), moved, { recursive: true })
  writeFileSync(join(moved, 'package.json'), '{"private": true, "type": "module"}\n')
  const { code, output } = await runNode(moved, 'main.js', join(copy, 'dist/index.js'))
  expect({ code, output }).toMatchObject({ code: 0 })
  const told = [true, true, true, true]
  const missing = expect.stringMatching(
    /not installed; run: npm install ioredis, or npm install redis$/,
  )
  expect(JSON.parse(output)).toEqual({ told, strange: false, redis: 'function', missing })
})
