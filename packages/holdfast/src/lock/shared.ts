/**
 * What several engines on one backend share: each hears the backend's warnings, and the last one that
 * closes ends the backend.
 */
import type { Backend } from '../core/backend.ts'
import type { Emitter, Warning } from '../core/events.ts'

interface Shared {
  readonly emitters: Set<Emitter>
  /** For engines that come later: a backend warns of a setting once. */
  readonly warnings: Warning[]
}

const sharedByBackend = new WeakMap<Backend, Shared>()
const WARNINGS_KEPT_MAX = 20

export function join(backend: Backend, emitter: Emitter): void {
  const shared = sharedByBackend.get(backend) ?? share(backend)
  shared.emitters.add(emitter)
  for (const warning of shared.warnings) emitter.emit('warning', warning)
}

/** @returns Whether nobody uses the backend any more. */
export function leave(backend: Backend, emitter: Emitter): boolean {
  const shared = sharedByBackend.get(backend)
  shared?.emitters.delete(emitter)
  return (shared?.emitters.size ?? 0) === 0
}

function share(backend: Backend): Shared {
  const shared: Shared = { emitters: new Set(), warnings: [] }
  sharedByBackend.set(backend, shared)
  const others = backend.warn
  backend.warn = (warning) => {
    others?.(warning)
    if (shared.warnings.length < WARNINGS_KEPT_MAX) shared.warnings.push(warning)
    for (const emitter of shared.emitters) emitter.emit('warning', warning)
  }
  return shared
}
