import { findPrograms } from './find-programs.ts'
import { MissingServerError, type ServerKind } from './missing-server.ts'

/** One line for all of them that this machine lacks, or null. Nothing is started. */
export function whatIsMissing(kinds: Iterable<ServerKind>): string | null {
  const missing: string[] = []
  for (const kind of kinds) {
    try {
      findPrograms(kind)
    } catch (error) {
      if (!(error instanceof MissingServerError)) throw error
      missing.push(error.message)
    }
  }
  return missing.length === 0 ? null : missing.join('; ')
}
