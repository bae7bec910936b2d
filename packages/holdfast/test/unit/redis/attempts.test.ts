import { describe, expect, it } from 'vitest'
import { Attempts, type Pending } from '../../../src/wire/attempts.ts'

const sent = (attempts: Attempts, owner: string, ttlMs: number): Pending =>
  attempts.sent({ lockName: 'k', owner, ttlMs }, 0)

describe('attempts', () => {
  // The cancel overtook the acquire on another connection: a tombstone that ends before the attempt
  // can arrive does not stop it.
  it('leave a tombstone of twice their TTL, and of 30 s at least', () => {
    const attempts = new Attempts()
    sent(attempts, 'short', 1000)
    sent(attempts, 'long', 3_600_000)
    expect(attempts.cancelled('short', 0)).toBe(30_000)
    expect(attempts.cancelled('long', 0)).toBe(7_200_000)
    expect(attempts.cancelled('of another process', 0)).toBe(60_000)
  })

  // The answer came after its caller had given up: to use that grant would be to hold a lock that
  // is being undone.
  it('that were cancelled say so when they are answered', () => {
    const attempts = new Attempts()
    const [a, b, c] = [
      sent(attempts, 'a', 1000),
      sent(attempts, 'b', 1000),
      sent(attempts, 'c', 1000),
    ]
    attempts.cancelled('b', 0)
    expect([a.isCancelled, b.isCancelled, c.isCancelled]).toEqual([false, true, false])
    // An answer ends the attempt: who cancels now knows nothing of its TTL.
    for (const one of [b, a, c]) attempts.answered(one)
    for (const owner of ['a', 'b', 'c']) expect(attempts.cancelled(owner, 0)).toBe(60_000)
    expect(a.isCancelled).toBe(false)
  })

  // A store that answers too late would be filled by those who give up.
  it('are refused while too many tombstones stand, and no longer', () => {
    const attempts = new Attempts(100)
    let nowMs = 5000
    for (let count = 0; count < 100; count++) {
      expect(attempts.isFull(nowMs)).toBe(false)
      const one = sent(attempts, `o${count}`, 1000)
      attempts.cancelled(`o${count}`, nowMs)
      attempts.answered(one)
    }
    expect(attempts.isFull(nowMs)).toBe(true)
    nowMs += 29_999
    expect(attempts.isFull(nowMs)).toBe(true)
    nowMs += 10_001
    expect(attempts.isFull(nowMs)).toBe(false)
  })

  // One tombstone of two days must not count the others of its time until it ends.
  it('are counted by their own ends', () => {
    const attempts = new Attempts(3)
    sent(attempts, 'days', 86_400_000)
    attempts.cancelled('days', 0)
    for (const owner of ['a', 'b']) {
      sent(attempts, owner, 1000)
      attempts.cancelled(owner, 0)
    }
    expect(attempts.isFull(0)).toBe(true)
    expect(attempts.isFull(60_000)).toBe(false)
    attempts.cancelled('c', 60_000)
    attempts.cancelled('d', 60_000)
    expect(attempts.isFull(60_000)).toBe(true)
  })

  // A client that never answers, and a caller that never cancels.
  it('that are never answered do not fill memory', () => {
    const attempts = new Attempts()
    for (let count = 0; count < 150_000; count++) sent(attempts, `o${count}`, 3_600_000)
    expect(attempts.cancelled('o149999', 0)).toBe(7_200_000)
    // Forgotten: as one that this process knows nothing of.
    expect(attempts.cancelled('o0', 0)).toBe(60_000)
    // Nor if all are cancelled, one by one, which takes no longer for it.
    for (let count = 50_000; count < 150_000; count++) attempts.cancelled(`o${count}`, 0)
    expect(attempts.cancelled('o50000', 0)).toBe(7_200_000)
    for (let count = 0; count < 10; count++) sent(attempts, `late${count}`, 3_600_000)
    for (let count = 0; count < 10; count++) attempts.cancelled(`late${count}`, 0)
    expect(attempts.cancelled('late0', 0)).toBe(7_200_000)
    expect(attempts.cancelled('o50000', 0)).toBe(60_000)
  })
})
