/** Where the record of a run is written: a page, and beside it the document it is made of. */
import { writeFileSync } from 'node:fs'
import { basename } from 'node:path'
import { jsonReport, type LabDocument } from './json.ts'
import { recordPage } from './record.ts'

const PAGE_SUFFIX = '.md'

export function isRecordPath(path: string): boolean {
  return path.endsWith(PAGE_SUFFIX) && basename(path) !== PAGE_SUFFIX
}

export function jsonPathOf(page: string): string {
  return `${page.slice(0, -PAGE_SUFFIX.length)}.json`
}

/** Why there can be no record of this commit, or null: what it names must be what was run. */
export function recordObstacle(commit: string): string | null {
  if (commit === 'unknown') return '--record is for a checkout: this is not one, or has no commit'
  if (!commit.endsWith('-dirty')) return null
  return '--record is for a commit, and files differ from it: commit or remove them first'
}

export function writeRecord(page: string, document: LabDocument): void {
  const json = jsonPathOf(page)
  writeFileSync(json, `${jsonReport(document)}\n`)
  writeFileSync(page, recordPage(document, basename(json)))
}
