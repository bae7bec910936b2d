import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import type { ArmRecord } from '../../src/lab/scenario.ts'
import { checkUnlock } from '../../src/lab/scenarios/unlock/check.ts'
import { FAULT, MadeUpRound } from './fixtures/made-up.ts'

interface Fate {
  readonly cGets: boolean
  readonly keyNames?: string
  readonly bAtMs?: number
}

/** A acquires and pauses, B acquires, A cleans up, C asks, the lab looks, B and C release. */
function unlockRound(arm: string, round: number, { cGets, keyNames, bAtMs = 305 }: Fate): Entry[] {
  const made = new MadeUpRound(arm, round)
    .add('A', 'acquire', 0, 2, { answer: 'granted', owner: 'a' })
    .add('A', 'pause', 3, 510, { answer: 'over' })
    .add('B', 'acquire', 10, bAtMs, { answer: 'granted', owner: 'b' })
    .add('A', 'release', 511, 512, { answer: 'deleted', owner: 'a' })
    .add(
      'C',
      'acquire',
      515,
      516,
      cGets ? { answer: 'granted', owner: 'c' } : { answer: 'refused' },
    )
    .add('lab', 'look', 518, 519, {
      answer: 'seen',
      detail: `hf1:${keyNames ?? (cGets ? 'c' : 'b')}:7`,
    })
    .add('B', 'release', 520, 521, { answer: 'deleted', owner: 'b' })
  if (cGets) made.add('C', 'release', 520, 521, { answer: 'nothing-there', owner: 'c' })
  return made.entries
}

function recordOf(isProtected: boolean, rounds: readonly Entry[][]): ArmRecord {
  const arm = { name: isProtected ? 'owner-checked' : 'bare delete', protected: isProtected }
  return { arm, rounds: rounds.length, fault: FAULT, entries: rounds.flat(), finals: [] }
}

const rounds = (count: number, fate: Fate): Entry[][] =>
  Array.from({ length: count }, (_, round) => unlockRound('x', round, fate))

const verdict = (record: ArmRecord): string =>
  verdictOf(record.arm, record.rounds, checkUnlock(record))

describe('unlock', () => {
  test('two holders at once are counted, and are what the bare delete must show', () => {
    // The source found 100 of 100 for a bare DEL.
    const record = recordOf(false, rounds(3, { cGets: true }))
    expect(checkUnlock(record)).toMatchObject({
      ...{ rounds: 3, roundsTrue: 3, problems: [], breaches: [] },
      metrics: { doubleHolding: 3 },
    })
    expect(verdict(record)).toBe('holds')
  })

  test('an owner-checked release holds when C is refused every time, and only then', () => {
    // One double holding in a hundred is one too many.
    const good = rounds(3, { cGets: false })
    expect(checkUnlock(recordOf(true, good)).metrics).toEqual({ doubleHolding: 0 })
    expect(verdict(recordOf(true, good))).toBe('holds')
    const bad = [...good, unlockRound('x', 3, { cGets: true })]
    expect(checkUnlock(recordOf(true, bad)).metrics).toEqual({ doubleHolding: 1 })
    expect(verdict(recordOf(true, bad))).toBe('broken')
  })

  test('a bare delete that never lets C in is void', () => {
    // Then A did not delete B's lock, and the owner check has nothing to protect from.
    expect(verdict(recordOf(false, rounds(3, { cGets: false })))).toBe('void')
  })

  test('C is no second holder when B had released before', () => {
    // Releasing and acquiring one after the other is what locks are for.
    const round = unlockRound('x', 0, { cGets: true }).map((entry) =>
      entry.process === 'B' && entry.op === 'release'
        ? { ...entry, calledAtUs: 400_000, answeredAtUs: 401_000 }
        : entry,
    )
    expect(checkUnlock(recordOf(true, [round])).metrics).toEqual({ doubleHolding: 0 })
  })

  test('a key that names somebody else than the last one granted is not believed', () => {
    // Workers that only think they hold the lock show nothing about the store.
    const wrong = rounds(1, { cGets: true, keyNames: 'b' })
    expect(verdict(recordOf(false, wrong))).toBe('void')
    const stolen = rounds(1, { cGets: false, keyNames: '' })
    expect(verdict(recordOf(true, stolen))).toBe('broken')
  })

  test('a grant to B while A’s TTL still runs breaks the arm', () => {
    // Exclusion comes before everything else.
    expect(verdict(recordOf(true, rounds(1, { cGets: false, bAtMs: 200 })))).toBe('broken')
  })

  test('a round in which B came too late counts only if it was drawn again', () => {
    // A's delete then hit nobody's lock.
    const late = rounds(1, { cGets: false, bAtMs: 511 })
    expect(verdict(recordOf(true, late))).toBe('void')
  })

  test.each([
    ['A', 'acquire'],
    ['A', 'pause'],
    ['A', 'release'],
    ['B', 'acquire'],
    ['B', 'release'],
    ['C', 'acquire'],
    ['lab', 'look'],
  ])('a history without %s’s %s is rejected', (process, op) => {
    // What nobody recorded may be what decided.
    const round = unlockRound('x', 0, { cGets: false }).filter(
      (entry) => entry.process !== process || entry.op !== op,
    )
    expect(verdict(recordOf(true, [round]))).toBe('void')
  })

  test('C asking before A has cleaned up is rejected', () => {
    // C would be refused for another reason.
    const round = unlockRound('x', 0, { cGets: false }).map((entry) =>
      entry.process === 'C' ? { ...entry, calledAtUs: 400_000, answeredAtUs: 401_000 } : entry,
    )
    expect(verdict(recordOf(true, [round]))).toBe('void')
  })
})
