import { describe, expect, test } from 'vitest'
import { verdictOf } from '../../src/lab/checker.ts'
import type { Entry } from '../../src/lab/history.ts'
import type { ArmRecord } from '../../src/lab/scenario.ts'
import { checkPause, isPauseAsPlanned } from '../../src/lab/scenarios/pause/check.ts'
import { changed, pauseRecord, SHAPES } from './fixtures/made-up.ts'

const verdict = (record: ArmRecord): string =>
  verdictOf(record.arm, record.rounds, checkPause(record, 'embedded'))

const moved = (entry: Entry, fromMs: number, toMs = fromMs): Entry => ({
  ...entry,
  calledAtUs: entry.calledAtUs + fromMs * 1_000,
  answeredAtUs: entry.answeredAtUs + toMs * 1_000,
})

/**
 * A pauses from 9 to 520 ms inside of its transaction. B asks at 313 ms and is answered `waitMs`
 * later than it would be otherwise; A does its work again when B is done.
 */
function insideRecord(waitMs: number, askedLateMs = 0): ArmRecord {
  return changed(pauseRecord(SHAPES.inside, 1), {
    entries: (entries) =>
      entries.map((entry) => {
        if (entry.process === 'A') {
          return entry.calledAtUs < 525_000 ? entry : moved(entry, waitMs + askedLateMs)
        }
        if (entry.op === 'acquire') return moved(entry, askedLateMs)
        if (entry.op === 'claim') return moved(entry, askedLateMs, askedLateMs + waitMs)
        return moved(entry, askedLateMs + waitMs)
      }),
  })
}

describe('a pause inside of a transaction, where no server ends it', () => {
  test('holds when the next holder has its answer soon after the pause', () => {
    // On files B cannot be done in A's pause, as it is on servers: then every round was drawn again.
    expect(checkPause(insideRecord(210), 'embedded')).toMatchObject({
      ...{ rounds: 1, roundsTrue: 1, redrawn: 0, problems: [], breaches: [] },
      timings: { nextClaimWaitMsMax: 212 },
    })
    expect(verdict(insideRecord(210))).toBe('holds')
  })

  test('is broken when the next holder waits on although the pause is over', () => {
    // A transaction that stays open after its holder went on keeps the file from everybody.
    const last = 520 + 245 - 315
    expect(verdict(insideRecord(last))).toBe('holds')
    expect(checkPause(insideRecord(last + 1), 'embedded')).toMatchObject({
      ...{ rounds: 1, roundsTrue: 0, problems: [] },
    })
    expect(verdict(insideRecord(last + 1))).toBe('broken')
  })

  test('shows nothing when the next holder came after the pause', () => {
    // Whoever comes late waits for nobody.
    const { entries } = insideRecord(0, 208)
    expect(isPauseAsPlanned(insideRecord(210).entries, 'embedded')).toBe(true)
    expect(isPauseAsPlanned(entries, 'embedded')).toBe(false)
    expect(verdict(insideRecord(0, 208))).toBe('void')
  })

  test('is broken when a lost lease is committed after all, though nothing is lost by that', () => {
    // The file keeps the order, so the balance is right; what the holder was promised is not.
    const applied = (entry: Entry): Entry[] => {
      if (entry.process === 'B') {
        if (entry.op === 'read') return [{ ...entry, value: 1 }]
        return entry.op === 'write' ? [{ ...entry, basis: 1, value: 2 }] : [entry]
      }
      if (entry.tryNumber === 2) return []
      return [entry.op === 'write' ? { ...entry, answer: 'applied' } : entry]
    }
    const made = insideRecord(210)
    const log = [
      { writer: 'A', oldBalance: 0, newBalance: 1 },
      { writer: 'B', oldBalance: 1, newBalance: 2 },
    ]
    const finals = made.finals.map(({ place }) => ({ place, state: { balance: 2, log } }))
    const record = { ...made, entries: made.entries.flatMap(applied), finals }
    expect(checkPause(record, 'embedded')).toMatchObject({
      ...{ rounds: 1, roundsTrue: 0, problems: [] },
      metrics: { lostUpdates: 0, stoppedByHolder: 0, finalBalance: 2 },
    })
    expect(verdict(record)).toBe('broken')
  })

  test('is another matter on servers, where the same history is no round at all', () => {
    // There a server ends the transaction, and B is done in A's pause.
    expect(isPauseAsPlanned(insideRecord(210).entries, 'servers')).toBe(false)
    const record = pauseRecord(SHAPES.guard, 1)
    expect(isPauseAsPlanned(record.entries, 'embedded')).toBe(true)
    expect(verdict(record)).toBe('holds')
  })
})
