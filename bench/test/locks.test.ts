import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { exitCodeOf } from '../src/bench.ts'
import type { Contestant } from '../src/contestant.ts'
import { handWritten } from '../src/contestants/hand-written.ts'
import { holdfast } from '../src/contestants/holdfast.ts'
import type { Transactor } from '../src/contestants/transactions.ts'
import { contendersEntry } from '../src/groups/contenders.ts'
import { filePairsEntry } from '../src/groups/files.ts'
import { pairsEntry } from '../src/groups/pairs.ts'
import { openRedisBed } from '../src/groups/redis-bed.ts'
import { openTransactionBed, transactionEntry } from '../src/groups/transactions.ts'
import { type Entry, measure } from '../src/measure.ts'
import { rowsOf } from '../src/rows.ts'
import { excludesNobody, grantsAlways, hasNoTtl, keepsLocks } from './broken-locks.ts'

let bed: Awaited<ReturnType<typeof openRedisBed>>

beforeAll(async () => {
  bed = await openRedisBed()
})

afterAll(() => bed.close())

const SLICE_MS = 100

async function contended(contestant: Contestant): Promise<Entry> {
  return contendersEntry(contestant, SLICE_MS, bed)
}

describe('the bench', () => {
  // A library that is fast because it does not lock would be the fastest of all.
  it('does not measure a lock that two hold at once', async () => {
    await expect(contended(grantsAlways)).rejects.toThrow(/16 held one name at once/)
  })

  it.each([
    ['never expires', hasNoTtl, /0 while it was held/],
    ['is not freed by its release', keepsLocks, /1 after/],
  ])('does not measure a lock that %s', async (_, contestant, complaint) => {
    await expect(pairsEntry(contestant, 1, bed)).rejects.toThrow(complaint)
  })

  it('does not measure a lock in files that excludes nobody', async () => {
    const entry = filePairsEntry(excludesNobody, 'no folder is needed', false)
    await expect(entry).rejects.toThrow('2 held one name at once')
  })

  it('tells of who fails in the middle, and measures the others to the end', async () => {
    const good = await pairsEntry(handWritten('ioredis', true), 1, bed)
    let slices = 0
    const failing: Entry = {
      ...good,
      who: 'failing',
      isReference: false,
      slice: async () => {
        if (++slices > 1) throw new Error('not released')
        return good.slice()
      },
    }

    const outcome = await measure([failing, good], { runs: 3, runMs: 1 }, () => {})
    await good.close()

    expect(outcome.failures).toMatchObject([{ who: 'failing', reason: 'not released' }])
    expect(outcome.measured).toMatchObject([{ entry: { who: 'hand-written' } }])
    expect(outcome.measured[0]?.runs).toHaveLength(3)
    expect(exitCodeOf([{ failures: outcome.failures }])).toBe(1)
    expect(exitCodeOf([{ failures: [] }])).toBe(0)
  })

  // A guard that is fast because its transaction writes nothing.
  it('does not measure a transaction whose balance does not add up', async () => {
    const { look, close } = await openTransactionBed()
    try {
      await look.query('INSERT INTO wallets (id, balance) VALUES (99, 0)')
      const forgetful: Transactor = {
        ...{ who: 'holdfast', variant: '', client: 'pg', isReference: false },
        ...{ comparedWith: 'pg', table: 'wallets' as const },
        run: async () => {},
      }
      const entry = transactionEntry(forgetful, 99, look, () => null)
      await expect(entry.slice()).rejects.toThrow('the balance is 0 after 20 transactions')
    } finally {
      await close()
    }
  })

  it('counts the requests of clients, and not what their scripts call', async () => {
    // One EVALSHA each to acquire and to release; the scripts call four commands.
    const alone = await contended(handWritten('ioredis', true))
    const ours = await contended(holdfast('ioredis'))

    const { measured } = await measure([alone, ours], { runs: 1, runMs: 1 }, () => {})
    await Promise.all([alone.close(), ours.close()])

    const [raw, own] = rowsOf('16-contenders', measured)
    expect(raw).toMatchObject({ who: 'hand-written', requestsEach: 2, ratio: 1, inFlight: 1 })
    expect(own).toMatchObject({ who: 'holdfast', inFlight: 16 })
    // Handed over from one to the next by one request; the first and the last take one more.
    expect(own?.requestsEach).toBeGreaterThan(0.9)
    expect(own?.requestsEach).toBeLessThan(3)
    expect(own?.jain).toBeGreaterThan(0.5)
  })
})
