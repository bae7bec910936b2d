import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  acquireTimeoutMs,
  driftAllowanceMs,
  leastRestMs,
  lifeMs,
  marginMs,
  renewEveryMs,
  renewRetryMs,
  renewTimeoutMs,
} from '../../../src/core/validity.ts'

const ttls = fc.integer({ min: 100, max: 86_400_000 })

describe('the arithmetic of validity', () => {
  // The figures that were settled by hand; a change of one constant moves every deadline.
  it.each([
    [100, 3, 25, 72, 10, 33],
    [300, 5, 50, 245, 30, 100],
    [500, 7, 50, 443, 50, 166],
    [30_000, 302, 2000, 27_698, 3000, 10_000],
  ])('gives ttl %i its allowance, margin, deadline, least rest and interval', (ttl, ...figures) => {
    expect([
      driftAllowanceMs(ttl),
      marginMs(ttl),
      lifeMs(ttl),
      leastRestMs(ttl),
      renewEveryMs(ttl),
    ]).toEqual(figures)
  })

  // A holder whose clock is slow believes longer than the store keeps the entry.
  it('ends before the store may give the name away while clock rates differ by less than 1 %', () => {
    fc.assert(
      fc.property(ttls, fc.double({ min: 0.9901, max: 1.0099, noNaN: true }), (ttl, ratio) => {
        // The holder's clock runs at `ratio` of the store's: its life lasts longer in store time.
        expect(lifeMs(ttl) / ratio).toBeLessThan(ttl)
      }),
    )
  })

  it('leaves a life from which at least the least rest can be asked for', () => {
    fc.assert(
      fc.property(ttls, (ttl) => {
        expect(lifeMs(ttl)).toBeGreaterThan(leastRestMs(ttl))
        expect(acquireTimeoutMs(ttl)).toBeGreaterThan(0)
        expect(acquireTimeoutMs(ttl)).toBeLessThanOrEqual(lifeMs(ttl) - leastRestMs(ttl))
        expect(acquireTimeoutMs(ttl)).toBeLessThanOrEqual(2000)
      }),
    )
  })

  // One failed renewal must leave time for a second and a third try before the deadline.
  it('leaves room for a retry after a renewal that got no answer', () => {
    fc.assert(
      fc.property(ttls, (ttl) => {
        const secondTryAt =
          renewEveryMs(ttl) + Math.min(renewTimeoutMs(ttl), ttl / 10) + renewRetryMs(ttl)
        expect(secondTryAt).toBeLessThan(lifeMs(ttl))
        expect(renewTimeoutMs(ttl)).toBeGreaterThanOrEqual(50)
        expect(renewTimeoutMs(ttl)).toBeLessThanOrEqual(2000)
      }),
    )
  })

  // Two of its parts are rounded, so that 101 ms have a life of 71 ms, and 100 ms one of 72.
  it('grows with the TTL, but for a rounding', () => {
    fc.assert(
      fc.property(ttls, ttls, (a, b) => {
        const [less, more] = a < b ? [a, b] : [b, a]
        expect(lifeMs(less)).toBeLessThanOrEqual(lifeMs(more) + 1)
      }),
    )
  })
})
