/** What package.json promises against what the build gives. The build's files lie under `dist/`. */
import { findFile, findJson, type Rule, type TextFile } from '../repository.ts'

const PACKAGES = ['packages/holdfast', 'packages/cli']
/** Without `preserve` the compiler drops the line, and consumers lack `AsyncDisposable`. */
const HEAD = '/// <reference lib="esnext.disposable" preserve="true" />\n'

/** The simulation is compiled with the library and runs beside it; nobody installs it. */
const FILES: Readonly<Record<string, string>> = {
  'packages/holdfast': 'dist, !dist/.tsbuildinfo, !dist/sim, README.md, LICENSE',
  'packages/cli': 'dist, !dist/.tsbuildinfo, README.md, LICENSE',
}

type Json = Readonly<Record<string, unknown>>

export const exportsMap: Rule = (files) =>
  PACKAGES.flatMap((folder) => {
    const json = findJson(files, `${folder}/package.json`)
    if (json === null) return []
    const say = (complaint: string): string => `${folder}/package.json: ${complaint}`
    const entries = Object.entries((json['exports'] ?? {}) as Json)
    return [
      ...entries.flatMap(([entry, target]) => checkEntry(files, folder, entry, target)),
      ...forgottenEntries(files, folder, entries),
      ...mainTargets(json).flatMap((target) =>
        checkBuilt(files, folder, 'main, types, bin', target),
      ),
      ...checkPublished(files, folder, json),
    ].map(say)
  })

function checkEntry(
  files: readonly TextFile[],
  folder: string,
  entry: string,
  target: unknown,
): string[] {
  if (entry === './package.json' && target === entry) return []
  const conditions = typeof target === 'object' && target !== null ? (target as Json) : {}
  // In this order: the first condition that a resolver knows wins, and every one knows `default`.
  if (Object.keys(conditions).join(', ') !== 'types, default') {
    return [`exports["${entry}"] must have the conditions types, default, in this order`]
  }
  const targets = Object.values(conditions).map(String)
  const missing = targets.flatMap((path) => checkBuilt(files, folder, entry, path))
  const declarations = findFile(files, inFolder(folder, String(conditions['types'])))
  if (declarations && !declarations.text.startsWith(HEAD)) {
    missing.push(`exports["${entry}"]: ${conditions['types']} does not begin with ${HEAD.trim()}`)
  }
  return missing
}

function checkBuilt(
  files: readonly TextFile[],
  folder: string,
  entry: string,
  target: string,
): string[] {
  const isBuilt = findFile(files, inFolder(folder, target)) !== undefined
  return isBuilt ? [] : [`${entry}: ${target} is not built`]
}

function inFolder(folder: string, target: string): string {
  return `${folder}/${target.replace(/^\.\//, '')}`
}

function mainTargets(json: Json): string[] {
  const bin = Object.values((json['bin'] ?? {}) as Json)
  return [json['main'], json['types'], ...bin].filter((target) => typeof target === 'string')
}

/** A file of the library's `src` itself is an entry: whoever adds one means to publish it. */
function forgottenEntries(
  files: readonly TextFile[],
  folder: string,
  entries: readonly [string, unknown][],
): string[] {
  if (folder !== 'packages/holdfast') return []
  const targets = new Set(entries.map(([, target]) => (target as Json | null)?.['default']))
  return files
    .map(({ path }) => /^packages\/holdfast\/src\/([^/]+)\.ts$/.exec(path)?.[1])
    .filter((name) => name !== undefined && !targets.has(`./dist/${name}.js`))
    .map((name) => `src/${name}.ts is in no entry of the exports map`)
}

/** What is packed, and what npm shows beside it. */
function checkPublished(files: readonly TextFile[], folder: string, json: Json): string[] {
  const complaints: string[] = []
  const listed = (json['files'] as unknown[] | undefined)?.join(', ')
  const wanted = FILES[folder]
  if (listed !== wanted) complaints.push(`files is "${listed}", not "${wanted}"`)
  if (!findFile(files, `${folder}/README.md`)) complaints.push('README.md is missing beside it')
  const license = findFile(files, `${folder}/LICENSE`)?.text
  if (license !== findFile(files, 'LICENSE')?.text) {
    complaints.push("LICENSE beside it is not the repository's")
  }
  const used = (json['dependencies'] as Json | undefined)?.['holdfast']
  const current = findJson(files, 'packages/holdfast/package.json')?.['version']
  if (used !== undefined && used !== current) {
    complaints.push(`depends on holdfast ${used}, but that is ${current}`)
  }
  return complaints
}
