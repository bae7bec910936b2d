/** The checked-in listing of the public surface, compared with what the sources give. */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { entriesOf, fileNameOf, listApi } from '../../../../../scripts/lib/api-listing.mjs'
import { emitLibrary } from '../../../../../scripts/lib/emit.mjs'
import { findJson, ROOT, readRepository } from './repository.ts'

const FOLDER = 'packages/holdfast/api'

let emitted: string

beforeAll(async () => {
  emitted = mkdtempSync(join(tmpdir(), 'holdfast-api-'))
  await emitLibrary(emitted)
})

afterAll(() => {
  rmSync(emitted, { recursive: true, force: true })
})

function entries(): Record<string, string> {
  return entriesOf(JSON.parse(readFileSync(join(ROOT, 'packages/holdfast/package.json'), 'utf8')))
}

// The accident: a name, an option or a default type changes unseen, and users find out.
it('the public surface is the one in packages/holdfast/api; `npm run api` writes it', () => {
  const listed = readRepository()
    .filter(({ path }) => path.startsWith(`${FOLDER}/`))
    .map(({ path, text }) => [path.slice(FOLDER.length + 1), text])
  expect(Object.fromEntries(listed)).toEqual(listApi(emitted, entries()))
})

// The accident: an entry is published that the listing does not know.
it('every entry that is code has a listing', () => {
  const json = findJson(readRepository(), 'packages/holdfast/package.json')
  const names = Object.keys((json?.['exports'] ?? {}) as object)
    .filter((entry) => entry !== './package.json')
    .map(fileNameOf)
  expect(Object.keys(listApi(emitted, entries())).sort()).toEqual(names.sort())
})

// The accidents: what a caller may pass changes in a type that is not exported itself; a class that
// can no longer be constructed; a name that moved to another entry.
it('a listing shows everything that a consumer can meet, and nothing else', () => {
  const write = (name: string, text: string): void => {
    writeFileSync(join(emitted, `specimen-${name}.d.ts`), text)
  }
  write(
    'main',
    [
      "export { b as second, type Kept } from './specimen-parts.ts'",
      "export type { Made } from './specimen-parts.ts'",
      '/** A comment. */',
      "export declare function first(shape: Hidden, at: import('./specimen-parts.ts').Deep): void;",
      'interface Hidden { /** Why. */ readonly size: number }',
      'interface Unseen { readonly size: number }',
    ].join('\n'),
  )
  write('other', "export { type Kept, LIMIT } from './specimen-parts.ts'")
  write(
    'parts',
    [
      'export declare const LIMIT: number;',
      'export declare function b(): void;',
      'export declare function b(kept: Kept): void;',
      'export type Kept = readonly string[];',
      'export declare class Made { #secret; constructor(); }',
      'export type Deep = Deeper | null;',
      'type Deeper = bigint;',
      'export {};',
    ].join('\n'),
  )
  expect(
    listApi(emitted, {
      '.': 'specimen-main.d.ts',
      './a/b': 'specimen-other.d.ts',
      './c': 'no.d.ts',
    }),
  ).toEqual({
    'holdfast.txt': `# What \`holdfast\` exports. Written by \`npm run api\`.

type Kept = readonly string[];

class Made {
    #secret;
    constructor();
}
export type { Made }

function first(shape: Hidden, at: import('./specimen-parts.ts').Deep): void;

function b(): void;
function b(kept: Kept): void;
export { b as second }

# Not exported, but part of the above.

type Deep = Deeper | null;

type Deeper = bigint;

interface Hidden {
    readonly size: number;
}
`,
    'a-b.txt': `# What \`holdfast/a/b\` exports. Written by \`npm run api\`.

type Kept = readonly string[];

const LIMIT: number;
`,
  })
})
