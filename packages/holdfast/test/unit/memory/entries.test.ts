import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Entries, type Entry } from '../../../src/backends/memory/entries.ts'

function entry(lockName: string, endsAtMs: number): Entry {
  return {
    lockName,
    owner: lockName,
    fencingToken: 1n,
    endsAtMs,
    sinceAtMs: 0,
    lockDelayMs: 0,
    revokedOwner: null,
    wantedUntilMs: 0,
    wantedBy: '',
    holder: { host: 'test', pid: 1 },
    onLost: () => undefined,
  }
}

const step = fc.oneof(
  fc.record({ kind: fc.constant('set' as const), name: fc.nat(12), life: fc.nat(40) }),
  fc.record({ kind: fc.constant('renew' as const), name: fc.nat(12), life: fc.nat(40) }),
  fc.record({ kind: fc.constant('delete' as const), name: fc.nat(12), life: fc.constant(0) }),
  fc.record({ kind: fc.constant('pass' as const), name: fc.constant(0), life: fc.nat(15) }),
)

describe('entries of the memory backend', () => {
  // One wrong swap in the heap and a held lock is swept away, or a dead one fills a place for ever.
  it('agree with a plain list after any sequence of steps', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
        const entries = new Entries()
        const endsAtMs = new Map<string, number>()
        let nowMs = 0
        for (const { kind, name, life } of steps) {
          const lockName = `n${name}`
          if (kind === 'pass') nowMs += life
          if (kind === 'set') {
            entries.set(entry(lockName, nowMs + life + 1))
            endsAtMs.set(lockName, nowMs + life + 1)
          }
          if (kind === 'delete') {
            entries.delete(lockName)
            endsAtMs.delete(lockName)
          }
          const found = entries.at(lockName, nowMs)
          if (kind === 'renew' && found) {
            entries.renew(found, nowMs + life)
            endsAtMs.set(lockName, Math.max(endsAtMs.get(lockName) ?? 0, nowMs + life))
          }
          for (const [known, ends] of endsAtMs) {
            expect(entries.at(known, nowMs)?.endsAtMs).toBe(ends > nowMs ? ends : undefined)
          }
          for (let count = 0; count < 3; count++) entries.sweep(nowMs)
          for (const [known, ends] of endsAtMs) if (ends <= nowMs) endsAtMs.delete(known)
          expect(entries.size).toBe(endsAtMs.size)
          expect([...entries.values()].map((one) => one.lockName).sort()).toEqual(
            [...endsAtMs.keys()].sort(),
          )
        }
      }),
      { numRuns: 300 },
    )
  })

  // Millions that end at once must not stop the process while one request clears them all away.
  it('sweep a bounded number at a time, those first that ended first', () => {
    const entries = new Entries()
    for (let count = 0; count < 1000; count++) entries.set(entry(`n${count}`, 1000 - count))
    entries.sweep(5000)
    expect(entries.size).toBe(992)
    expect(entries.at('n999', 0)).toBeUndefined()
    expect(entries.at('n991', 0)?.endsAtMs).toBe(9)
  })
})
