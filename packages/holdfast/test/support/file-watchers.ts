/** Which of `fs.watch` are open in this process, for as long as the tests of a file run. */
import { createHook } from 'node:async_hooks'
import { afterAll, beforeAll } from 'vitest'

/** Their ids; followed from before the first test of the file that calls it. */
export function openFileWatchers(): ReadonlySet<number> {
  const watchers = new Set<number>()
  const hook = createHook({
    init(id, kind) {
      if (kind === 'FSEVENTWRAP') watchers.add(id)
    },
    destroy: (id) => void watchers.delete(id),
  })
  beforeAll(() => void hook.enable())
  afterAll(() => void hook.disable())
  return watchers
}
