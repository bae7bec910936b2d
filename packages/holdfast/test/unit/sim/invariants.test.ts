import { describe, expect, it } from 'vitest'
import {
  emptyHistory,
  type HeldRecord,
  type History,
  type WriteRecord,
} from '../../../src/sim/history.ts'
import { FREE_MS_MAX, violationsOf } from '../../../src/sim/invariants.ts'

/** Valid from 10 to 20, with token 5, unless said otherwise. */
function held(fields: Partial<HeldRecord> = {}): HeldRecord {
  return {
    process: 'p1',
    lockName: 'a',
    token: 5n,
    beganAtMs: 0,
    heldFromMs: 10,
    validUntilMs: 20,
    isRevived: false,
    signalLateMs: 0,
    ...fields,
  }
}

function write(fields: Partial<WriteRecord> = {}): WriteRecord {
  return { id: 1, lockName: 'a', token: 5n, atMs: 15, outcome: 'acknowledged', ...fields }
}

function history(fields: Partial<History>): History {
  return { ...emptyHistory(), ...fields }
}

/** The invariants that are broken, each once for each time. */
function broken(fields: Partial<History>, hasBoundedClocks = true, isCalm = true): string[] {
  const violations = violationsOf(history(fields), { hasBoundedClocks, isCalm })
  return violations.map(({ invariant }) => invariant)
}

const LATER = { process: 'p2', token: 6n, beganAtMs: 15, heldFromMs: 20, validUntilMs: 30 }

describe('the invariants', () => {
  it('find nothing in a history in which one holder follows another', () => {
    const writes = [write(), write({ id: 2, token: 6n, atMs: 25 }), write({ id: null, atMs: 12 })]
    const registers = new Map([['a', [1, 2]]])
    expect(broken({ held: [held(), held(LATER)], writes, registers })).toEqual([])
  })

  it('I1 finds two valid leases of one name, only while clocks are bounded', () => {
    const both = [held(), held({ ...LATER, heldFromMs: 19.999 })]
    expect(broken({ held: both })).toEqual(['I1'])
    expect(broken({ held: [...both].reverse() })).toEqual(['I1'])
    expect(broken({ held: both }, false)).toEqual([])
    const otherName = [held(), held({ ...LATER, heldFromMs: 15, lockName: 'b' })]
    expect(broken({ held: otherName })).toEqual([])
  })

  it('I2 finds a token that is given twice', () => {
    const second = held({ ...LATER, token: 5n, beganAtMs: 5 })
    expect(broken({ held: [held(), second] })).toEqual(['I2'])
    expect(broken({ held: [held(), { ...second, lockName: 'b' }] })).toEqual([])
  })

  it('I2 finds a token that falls, among attempts that did not overlap', () => {
    const fallen = { ...LATER, token: 4n }
    expect(broken({ held: [held(), held(fallen)] })).toEqual(['I2'])
    expect(broken({ held: [held(fallen), held()] })).toEqual(['I2'])
    // It began before the other was held: either order is right.
    expect(broken({ held: [held(), held({ ...fallen, beganAtMs: 9 })] })).toEqual([])
    // Not the last one before it, but an earlier one, was larger.
    const between = held({ token: 3n, beganAtMs: 5, heldFromMs: 20, validUntilMs: 21 })
    const last = held({ token: 4n, beganAtMs: 22, heldFromMs: 23, validUntilMs: 30 })
    expect(broken({ held: [held(), between, last] })).toEqual(['I2'])
  })

  it('I3 finds an acknowledged write that is not in its register', () => {
    const registers = new Map([['a', [2]]])
    expect(broken({ writes: [write()], registers })).toEqual(['I3'])
    expect(broken({ writes: [write()] })).toEqual(['I3'])
    for (const outcome of ['unknown', 'acknowledged'] as const) {
      const id = outcome === 'acknowledged' ? 2 : 1
      expect(broken({ writes: [write({ id, outcome })], registers })).toEqual([])
    }
  })

  it('I4 finds a refusal of the newest holder', () => {
    const refused = [write({ outcome: 'refused', atMs: 15 })]
    expect(broken({ held: [held()], writes: refused })).toEqual(['I4'])
    // A newer one of another name, or one that comes later, is no reason.
    expect(broken({ held: [held(), held({ ...LATER, lockName: 'b' })], writes: refused })).toEqual([
      'I4',
    ])
    expect(broken({ held: [held(), held(LATER)], writes: refused })).toEqual(['I4'])
    const late = [write({ outcome: 'refused', atMs: 20 })]
    expect(broken({ held: [held(), held(LATER)], writes: late })).toEqual([])
  })

  it('I5 finds a name that nobody gets, where little goes wrong', () => {
    const free = (ms: number) => ({ longestFreeMs: new Map([['a', ms]]) })
    expect(broken(free(FREE_MS_MAX + 1))).toEqual(['I5'])
    expect(broken(free(FREE_MS_MAX))).toEqual([])
    expect(broken(free(FREE_MS_MAX + 1), true, false)).toEqual([])
  })

  it('I7 and I8 are told by whoever sees the keys of a node', () => {
    const atNodes = [
      { invariant: 'I7', what: 'x' },
      { invariant: 'I8', what: 'y' },
    ] as const
    expect(broken({ atNodes: [...atNodes] })).toEqual(['I7', 'I8'])
  })

  it('I6 finds a lease that comes back, and a signal that comes late', () => {
    expect(broken({ held: [held({ isRevived: true })] })).toEqual(['I6'])
    expect(broken({ held: [held({ signalLateMs: 26 })] })).toEqual(['I6'])
    expect(broken({ held: [held({ signalLateMs: 25 })] })).toEqual([])
  })

  it('an error that only a bug can throw is found', () => {
    expect(broken({ strangeErrors: ['TypeError: x'] })).toEqual(['error'])
  })
})
