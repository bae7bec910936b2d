/** Packs both packages once for all files of this project. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'
import { packAll } from '../../../../scripts/lib/pack.mjs'
import { SetupError } from '../../../../scripts/lib/progress.mjs'

declare module 'vitest' {
  interface ProvidedContext {
    /** Paths of the tarballs, or why there are none. */
    tarballs: { holdfast: string; cli: string } | { failure: string }
  }
}

export default async function setup(project: TestProject): Promise<() => void> {
  const folder = mkdtempSync(join(tmpdir(), 'holdfast-tarballs-'))
  try {
    const [holdfast = '', cli = ''] = await packAll(folder)
    project.provide('tarballs', { holdfast, cli })
  } catch (error) {
    // Thrown here, sources that do not compile would end the tests of all projects.
    if (!(error instanceof SetupError)) throw error
    project.provide('tarballs', { failure: error.message })
  }
  return () => rmSync(folder, { recursive: true, force: true })
}
