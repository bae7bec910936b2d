import { describe, expect, it } from 'vitest'
import { Names } from '../../../src/lock/names.ts'

describe('names', () => {
  it('have what was set last, until just that is removed', () => {
    const names = new Names<{ id: number }>()
    const [first, second] = [{ id: 1 }, { id: 2 }]
    expect(names.get('k')).toBeNull()
    names.set('k', first)
    names.set('k', second)
    // The lease of before is forgotten late, when its successor has the name.
    names.remove('k', first)
    expect(names.get('k')).toBe(second)
    names.remove('k', second)
    expect(names.get('k')).toBeNull()
    names.remove('k', second)
    names.set('k', first)
    expect(names.get('k')).toBe(first)
  })

  it('tell what stands, and let it change meanwhile', () => {
    const names = new Names<{ id: number }>()
    const all = Array.from({ length: 5 }, (_, id) => ({ id }))
    for (const one of all) names.set(`k${one.id}`, one)
    names.remove('k3', all[3] as { id: number })
    const seen: number[] = []
    for (const one of names.values()) {
      seen.push(one.id)
      names.remove(`k${one.id}`, one)
      names.set(`more${one.id}`, one)
    }
    expect(seen).toEqual([0, 1, 2, 4])
    expect(names.values().map(({ id }) => id)).toEqual([0, 1, 2, 4])
  })

  // The accident: a process that locks each order once would keep the name of every order.
  it('that left are swept out when they are many, and those that stand are kept', () => {
    const names = new Names<{ id: number }>()
    const kept = Array.from({ length: 10 }, (_, id) => ({ id }))
    for (const one of kept) names.set(`kept${one.id}`, one)
    for (let id = 0; id < 10_000; id++) {
      const one = { id }
      names.set(`k${id}`, one)
      names.remove(`k${id}`, one)
      expect(names.placeCount).toBeLessThanOrEqual(1011)
    }
    expect(names.values()).toEqual(kept)
  })

  it('are not swept out at each removal when many stand', () => {
    const names = new Names<{ id: number }>()
    const all = Array.from({ length: 5000 }, (_, id) => ({ id }))
    for (const one of all) names.set(`k${one.id}`, one)
    for (const one of all.slice(0, 2500)) names.remove(`k${one.id}`, one)
    expect(names.placeCount).toBe(5000)
    for (const one of all.slice(2500)) names.remove(`k${one.id}`, one)
    expect(names.values()).toEqual([])
    expect(names.placeCount).toBeLessThan(2500)
  })
})
