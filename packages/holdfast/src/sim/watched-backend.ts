/** A backend whose user's words are noted: when it asked for an owner, gave it up, or back. */
import type { AcquireRequest, AcquireResult, Backend } from '../core/backend.ts'
import type { EndRecord, History } from './history.ts'
import type { Process } from './process.ts'

export function watchedBackend(process: Process, backend: Backend, history: History): Backend {
  const { askedAtMs, ended } = history
  const nowMs = (): number => process.scheduler.nowMs
  const note = (owner: string, how: EndRecord['how']): void => {
    ended.set(owner, { atMs: nowMs(), how })
  }
  /** What is refused, or fails, leaves nothing behind. */
  const noteRefusal = ({ owner }: AcquireRequest, result: unknown): void => {
    const refused = (): void => {
      if (!ended.has(owner)) note(owner, 'refused')
    }
    ;(result as Promise<AcquireResult>).then(({ kind }) => {
      if (kind === 'held') refused()
    }, refused)
  }
  return new Proxy(backend, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (typeof member !== 'function') return member
      return (...args: unknown[]): unknown => {
        const request = name === 'tryAcquire' ? args[0] : name === 'handOver' ? args[1] : null
        if (request !== null) askedAtMs.set((request as { owner: string }).owner, nowMs())
        if (name === 'cancel') note(args[1] as string, 'cancelled')
        if (name === 'release' || name === 'handOver') {
          note((args[0] as { owner: string }).owner, 'released')
        }
        const result: unknown = member.apply(target, args)
        if (name === 'tryAcquire') noteRefusal(args[0] as AcquireRequest, result)
        return result
      }
    },
  })
}
