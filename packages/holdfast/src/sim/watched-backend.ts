/** A backend whose user's words are noted: when it gave an owner up, or back. */
import type { Backend } from '../core/backend.ts'
import type { EndRecord, History } from './history.ts'
import type { Process } from './process.ts'

export function watchedBackend(process: Process, backend: Backend, { ended }: History): Backend {
  const note = (owner: string, how: EndRecord['how']): void => {
    ended.set(owner, { atMs: process.scheduler.nowMs, how })
  }
  return new Proxy(backend, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return (...args: unknown[]): unknown => {
        if (name === 'cancel') note(args[1] as string, 'cancelled')
        if (name === 'release' || name === 'handOver') {
          note((args[0] as { owner: string }).owner, 'released')
        }
        return member.apply(target, args)
      }
    },
  })
}
