import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Children, openChildren } from '../support/child.ts'
import { childDrivers, childHead } from '../support/sqlite-child.ts'

const THREADS = 4
const SECTIONS = 40

/**
 * Each thread has a connection of its own. Who is inside stands in memory that they share, so that
 * an overlap is seen by whoever comes second, however short it is.
 */
const TEXT = `
const inside = workerData ?? new Int32Array(new SharedArrayBuffer(8))
const locks = createLocks(backend, { waitMs: 30000 })
async function work() {
  for (let done = 0; done < ${SECTIONS}; done++) {
    const lease = await locks.acquire('k')
    if (Atomics.exchange(inside, 0, threadId + 1) !== 0) Atomics.add(inside, 1, 1)
    await new Promise((resolve) => setTimeout(resolve, done % 2))
    if (Atomics.exchange(inside, 0, 0) !== threadId + 1) Atomics.add(inside, 1, 1)
    await lease.release()
  }
  await locks.close()
  await backend.close()
  opened.close()
}
if (isMainThread) {
  const others = Array.from({ length: ${THREADS - 1} }, () => {
    const worker = new Worker(new URL(import.meta.url), { workerData: inside })
    return new Promise((resolve, reject) => worker.once('error', reject).once('exit', resolve))
  })
  const codes = await Promise.all([work(), ...others])
  process.send(codes.slice(1).join() + ' overlaps ' + Atomics.load(inside, 1))
  process.disconnect()
} else {
  await work()
}
`

describe.each(childDrivers)('worker threads of one process, with $name,', () => {
  let children: Children
  let root: string

  beforeAll(async () => {
    children = await openChildren()
    root = mkdtempSync(join(tmpdir(), 'holdfast-threads-'))
  })

  afterAll(async () => {
    await children.remove()
    rmSync(root, { recursive: true, force: true })
  })

  // The kernel's file locks belong to the process, not to the thread: only SQLite tells them apart.
  it('exclude each other through connections of their own', async () => {
    const imports = `import { isMainThread, threadId, Worker, workerData } from 'node:worker_threads'
import { createLocks } from './dist/index.js'\n`
    const child = children.run(imports + childHead({ file: join(root, 'locks.db') }) + TEXT)
    const { code, stderr } = await child.ended
    expect(code, stderr).toBe(0)
    expect(child.messages).toEqual([`${Array(THREADS - 1).fill(0)} overlaps 0`])
  })
})
