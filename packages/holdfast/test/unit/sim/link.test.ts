import { describe, expect, it } from 'vitest'
import { Link } from '../../../src/sim/link.ts'
import { Process } from '../../../src/sim/process.ts'
import { Random } from '../../../src/sim/random.ts'
import type { Weather } from '../../../src/sim/scenarios.ts'
import { Scheduler } from '../../../src/sim/scheduler.ts'

const CALM: Weather = { loss: 0, resend: 0, slow: 0.3, slowMsMax: 200 }
const MANY = 200

/** Sends requests, a millisecond apart, and tells in which order they were done and answered. */
async function play(
  weather: Weather,
  prepare: (link: Link, scheduler: Scheduler) => void = () => {},
) {
  const scheduler = new Scheduler(true)
  const random = new Random(3)
  const [client, server] = ['c', 's'].map((name) => new Process(name, scheduler, random, 1))
  const link = new Link(client as Process, server as Process, random, weather)
  prepare(link, scheduler)
  const done: number[] = []
  const answered: number[] = []
  let failed = 0
  for (let count = 0; count < MANY; count++) {
    scheduler.at(count, () => {
      const execute = async () => {
        done.push(count)
        return count
      }
      link.call(`${count}`, true, execute).then(
        (answer) => answered.push(answer),
        () => {
          failed += 1
        },
      )
    })
  }
  await scheduler.run(10_000, () => {})
  return { done, answered, failed, trace: scheduler.trace as string[] }
}

function inOrder(numbers: readonly number[]): boolean {
  return numbers.every((one, place) => place === 0 || (numbers[place - 1] as number) < one)
}

describe('a link', () => {
  it('does and answers everything once in calm weather', async () => {
    const { done, answered, failed } = await play(CALM)
    const all = Array.from({ length: MANY }, (_, count) => count)
    expect([...done].sort((a, b) => a - b)).toEqual(all)
    expect([...answered].sort((a, b) => a - b)).toEqual(all)
    expect(failed).toBe(0)
  })

  // What one connection orders, two do not: a cancel may overtake its acquire.
  it('keeps the order on each connection, and not between the two', async () => {
    const { done, trace } = await play(CALM)
    expect(inOrder(done)).toBe(false)
    const connectionOf = new Map(
      trace.flatMap((line) => {
        const sent = /sends on (\d+): (\d+)/.exec(line)
        return sent ? [[Number(sent[2]), sent[1]] as const] : []
      }),
    )
    for (const connection of ['1', '2']) {
      const own = done.filter((count) => connectionOf.get(count) === connection)
      expect(own.length).toBeGreaterThan(0)
      expect(inOrder(own)).toBe(true)
    }
  })

  it('loses requests and answers, and tells some of those who wait', async () => {
    const { done, answered, failed } = await play({ ...CALM, loss: 0.2 })
    expect(done.length).toBeLessThan(MANY)
    expect(answered.length).toBeLessThan(done.length)
    expect(failed).toBeGreaterThan(0)
    expect(answered.length + failed).toBeLessThan(MANY)
  })

  it('does a request twice only where it had no answer, on a new connection', async () => {
    const { done, answered, trace } = await play({ ...CALM, resend: 1 })
    const twice = done.filter((count, place) => done.indexOf(count) !== place)
    expect(twice.length).toBeGreaterThan(0)
    expect(new Set(answered).size).toBe(answered.length)
    for (const count of twice) {
      const lines = trace.filter((line) => new RegExp(`: ${count}$`).test(line))
      const sent = lines.flatMap((line) => /sends on (\d+)/.exec(line)?.[1] ?? [])
      expect(sent.length).toBe(2)
      expect(sent[0]).not.toBe(sent[1])
      const again = lines.findIndex((line) => line.includes('sends again'))
      expect(lines.slice(0, again).some((line) => line.includes('has the answer'))).toBe(false)
    }
  })

  it('that is cut loses everything in silence until it is whole again', async () => {
    const cut = (link: Link, scheduler: Scheduler): void => {
      link.isCut = true
      scheduler.at(MANY / 2, () => {
        link.isCut = false
      })
    }
    const { done, failed } = await play(CALM, cut)
    expect(failed).toBe(0)
    expect(Math.min(...done)).toBeGreaterThanOrEqual(MANY / 2 - 1)
    expect(done.length).toBeGreaterThan(0)
  })
})
