import { expect, it } from 'vitest'
import { Chain, type Link } from '../../../src/lock/chain.ts'

interface One extends Link<One> {
  readonly id: number
}

const COUNT = 10_000

/** A link that counts how often it is looked at or written to. */
function counted(id: number, touch: () => void): One {
  return new Proxy<One>(
    { id, previous: null, next: null },
    {
      get: (target, key) => {
        touch()
        return Reflect.get(target, key)
      },
      set: (target, key, value) => {
        touch()
        return Reflect.set(target, key, value)
      },
    },
  )
}

function idsOf(chain: Chain<One>): number[] {
  const ids: number[] = []
  for (let link = chain.first; link !== null; link = link.next) ids.push(link.id)
  return ids
}

// Ten thousand callers waited in an array, and each that left moved all the others up.
it('takes the same few steps for each who comes or leaves, however many there are', () => {
  let steps = 0
  let most = 0
  const bounded = (act: () => void): void => {
    const before = steps
    act()
    most = Math.max(most, steps - before)
  }
  const chain = new Chain<One>()
  const links = Array.from({ length: COUNT }, (_, id) => counted(id, () => (steps += 1)))
  for (const link of links) bounded(() => chain.append(link))
  for (const link of links.filter((_, place) => place % 2 === 1)) bounded(() => chain.remove(link))
  for (let count = 0; count < COUNT / 4; count++) bounded(() => chain.remove(chain.first as One))
  expect(most).toBeLessThanOrEqual(6)
  expect(chain.count).toBe(COUNT / 4)
  expect(idsOf(chain)).toEqual(Array.from({ length: COUNT / 4 }, (_, at) => COUNT / 2 + 2 * at))
})

it('keeps its order whoever leaves, and takes one back at its front', () => {
  const chain = new Chain<One>()
  const [a, b, c] = [0, 1, 2].map((id) => counted(id, () => undefined)) as [One, One, One]
  for (const link of [a, b, c]) chain.append(link)
  chain.remove(b)
  chain.remove(b)
  expect([idsOf(chain), chain.count]).toEqual([[0, 2], 2])
  chain.remove(a)
  chain.prepend(a)
  chain.remove(c)
  expect([idsOf(chain), chain.count, chain.last?.id]).toEqual([[0], 1, 0])
  chain.remove(a)
  expect([chain.first, chain.last, chain.count]).toEqual([null, null, 0])
  chain.append(b)
  expect(idsOf(chain)).toEqual([1])
})
