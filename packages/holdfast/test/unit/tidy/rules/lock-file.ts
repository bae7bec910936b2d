/** What package-lock.json must be, or a fresh clone cannot be installed everywhere. */
import { findJson, type Rule, type TextFile } from '../repository.ts'

const LOCK = 'package-lock.json'

interface Locked {
  readonly link?: boolean
  readonly resolved?: string
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly devDependencies?: Readonly<Record<string, string>>
}

/**
 * A dependency, an optional one too, that has no entry was not to be had when the file was written.
 * npm 11 then refuses `npm ci`, although npm 10 accepts it.
 */
export const lockFile: Rule = (files) => {
  const packages = (findJson(files, LOCK)?.['packages'] ?? {}) as Readonly<Record<string, Locked>>
  return Object.entries(packages).flatMap(([place, { link, resolved, ...kinds }]) => {
    const names = link ? [] : Object.keys({ ...kinds.dependencies, ...kinds.optionalDependencies })
    // Of what is installed the development packages are not; of ours they are.
    if (!place.includes('node_modules/')) names.push(...Object.keys(kinds.devDependencies ?? {}))
    return names
      .filter((name) => !isFound(packages, place, name))
      .map((name) => `${LOCK}: "${place}" depends on ${name}, which has no entry`)
  })
}

/** As Node looks: beside the package itself, then beside each folder above it. */
function isFound(packages: object, place: string, name: string): boolean {
  for (let folder = place; ; folder = folder.replace(/(?:^|\/)[^/]*$/, '')) {
    const base = folder === '' ? '' : `${folder}/`
    if (Object.hasOwn(packages, `${base}node_modules/${name}`)) return true
    if (folder === '') return false
  }
}

/** A lock file that names a registry sends everybody's install there, whatever they configured. */
export const registryHosts: Rule = (files) =>
  files
    .filter(({ path }) => /(?:^|\/)(?:package-lock\.json|\.npmrc)$/.test(path))
    .flatMap((file) => linesWith(file, /"resolved": "[a-z+]+:|^(?:@[^:]+:)?registry\s*=/))

function linesWith(file: TextFile, pattern: RegExp): string[] {
  return file.text
    .split('\n')
    .flatMap((line, index) =>
      pattern.test(line) ? [`${file.path}:${index + 1}: names a registry`] : [],
    )
}
