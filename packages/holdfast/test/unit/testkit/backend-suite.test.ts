import { describe, expect, it } from 'vitest'
import { memoryBackendWith } from '../../../src/backends/memory/memory.ts'
import type { AcquireRequest, Backend, Grant, HandOverResult } from '../../../src/core/backend.ts'
import type { TestRunner } from '../../../src/testkit/backend-harness.ts'
import { testBackend } from '../../../src/testkit/backend-suite.ts'
import { createVirtualClock, seamsOf } from '../../../src/testkit/virtual-clock.ts'

/** The methods that a wrong backend has instead of those of a right one. */
type Wrong = (right: Backend) => Partial<Backend>
type Property = Parameters<TestRunner['it']>[1]

const NONE: Wrong = () => ({})

/** What is wrong, the property that must refuse it, and the backend. */
const CASES: readonly (readonly [wrong: string, property: string, backend: Wrong])[] = [
  [
    'a grant keeps less than it says',
    'an entry lives as long as its grant says',
    (right) => ({
      async tryAcquire(asked) {
        const answer = await right.tryAcquire({ ...asked, ttlMs: Math.ceil(asked.ttlMs * 0.9) })
        return answer.kind === 'held' ? answer : { ...answer, grant: longer(answer.grant, asked) }
      },
    }),
  ],
  [
    'a grant keeps less than it says, and inspect says so too',
    'an entry lives as long as its grant says',
    (right) => ({
      async tryAcquire(asked) {
        const answer = await right.tryAcquire({ ...asked, ttlMs: Math.ceil(asked.ttlMs * 0.9) })
        return answer.kind === 'held' ? answer : { ...answer, grant: longer(answer.grant, asked) }
      },
      async inspect(lockName) {
        const seen = await right.inspect(lockName)
        return seen && { ...seen, remainingMs: (seen.remainingMs ?? 0) / 0.9 }
      },
    }),
  ],
  ...renewals('an entry lives as long as each of its renewals says'),
  ...renewals('a rival is refused until the last renewal’s life is over'),
  // The engine's own margin covers a tenth.
  ...renewals('a lease that is renewed keeps a contender out over several TTLs').filter(
    ([wrong]) => wrong !== 'a renewal gives nine tenths',
  ),
  [
    'a renewal drops the value',
    'a renewal changes nothing but the life',
    (right) => ({
      async renew(grant, ttlMs) {
        const answer = await right.renew(grant, ttlMs)
        await right.proclaim(grant, '')
        return answer
      },
    }),
  ],
  [
    'a hand-over keeps half of what it says',
    'an entry lives as long as its hand-over says',
    handingOver(async (pass, next) => {
      const answer = await pass({ ...next, ttlMs: next.ttlMs / 2 })
      return answer.kind === 'handed-over'
        ? { ...answer, grant: longer(answer.grant, next) }
        : answer
    }),
  ],
  [
    'a repeated hand-over promises a whole life again',
    'no answer to a repeat promises more than what is left',
    handingOver(async (pass, next) => {
      const answer = await pass(next)
      return answer.kind === 'handed-over'
        ? { ...answer, grant: longer(answer.grant, next) }
        : answer
    }),
  ],
  [
    'a hand-over forgets the lock delay',
    'a hand-over brings the next one’s lock delay, not the last one’s',
    handingOver((pass, next) => pass({ ...next, lockDelayMs: 0 })),
  ],
  [
    'every waiter is another',
    'a hand-over tells of other waiters on its own backend too',
    handingOver((pass, next) => pass({ ...next, waiter: 'nobody' })),
  ],
  [
    'all waiters of a backend are one',
    'a hand-over tells of other waiters on its own backend too',
    (right) => ({
      tryAcquire: (asked) => right.tryAcquire({ ...asked, waiter: 'all' }),
      ...handingOver((pass, next) => pass({ ...next, waiter: 'all' }))(right),
    }),
  ],
  [
    'all waiters of a backend are one, for the engine',
    'using: two engines on one backend take turns as two processes do',
    (right) => ({
      tryAcquire: (asked) => right.tryAcquire({ ...asked, waiter: 'all' }),
      ...handingOver((pass, next) => pass({ ...next, waiter: 'all' }))(right),
    }),
  ],
  [
    'whoever waited once is waited for for ever',
    'a contender is waited for until it would have asked again',
    (right) => {
      const marked = new Set<string>()
      return {
        tryAcquire(asked) {
          if (asked.waits) marked.add(asked.lockName)
          return right.tryAcquire(asked)
        },
        ...handingOver(async (pass, next) => {
          const answer = await pass(next)
          return answer.kind === 'handed-over'
            ? { ...answer, wanted: marked.has(next.lockName) }
            : answer
        })(right),
      }
    },
  ],
  [
    'whoever waits is forgotten by the first hand-over',
    'a contender is waited for until it would have asked again',
    handingOver(async (pass, next) => {
      const answer = await pass(next)
      return answer.kind === 'handed-over' ? { ...answer, wanted: false } : answer
    }),
  ],
  [
    'a revoke says more than what is left',
    'an entry lives as long as its revoke says',
    revoking((grant) => grant && { ...grant, ttlMs: grant.ttlMs * 2 }),
  ],
  [
    'a repeated revoke is refused to its own owner',
    'a revoke that arrives twice is one revoke',
    (right) => {
      const revokers = new Set<string>()
      return {
        async revoke(asked, seen) {
          if (revokers.has(asked.owner)) return null
          revokers.add(asked.owner)
          return right.revoke(asked, seen)
        },
      }
    },
  ],
]

/** Ways to lengthen less than the answer says. */
function renewals(property: string): (readonly [string, string, Wrong])[] {
  const renewing =
    (lifeMs: (ttlMs: number, count: number) => number): Wrong =>
    (right) => {
      const counts = new Map<string, number>()
      return {
        async renew(grant, ttlMs) {
          const count = (counts.get(grant.owner) ?? 0) + 1
          counts.set(grant.owner, count)
          const answer = await right.renew(grant, lifeMs(ttlMs, count))
          return answer.kind === 'lost' ? answer : { ...answer, ttlMs }
        },
      }
    }
  return [
    ['a renewal gives half', property, renewing((ttlMs) => Math.floor(ttlMs / 2))],
    ['a renewal gives nine tenths', property, renewing((ttlMs) => Math.floor(ttlMs * 0.9))],
    ['a renewal gives a second', property, renewing((ttlMs) => Math.min(ttlMs, 1000))],
    [
      'only the first renewal gives anything',
      property,
      renewing((ttlMs, count) => (count === 1 ? ttlMs : 1)),
    ],
  ]
}

function handingOver(
  alter: (
    pass: (next: AcquireRequest) => Promise<HandOverResult>,
    next: AcquireRequest,
  ) => Promise<HandOverResult>,
): Wrong {
  return (right) => ({
    handOver: (grant, next, evenIfWanted) =>
      alter(
        (altered) => right.handOver?.(grant, altered, evenIfWanted) as Promise<HandOverResult>,
        next,
      ),
  })
}

function revoking(alter: (grant: Grant | null) => Grant | null): Wrong {
  return (right) => ({
    revoke: async (asked, seen) => alter(await right.revoke(asked, seen)),
  })
}

function longer(grant: Grant, { ttlMs }: AcquireRequest): Grant {
  return { ...grant, ttlMs }
}

function altered(right: Backend, wrong: Partial<Backend>): Backend {
  return new Proxy(right, {
    get(target, key) {
      const own: unknown = Reflect.get(wrong, key)
      if (own !== undefined) return own
      const value: unknown = Reflect.get(target, key)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** The properties by their titles, on two connections that are wrong in the same way. */
function propertiesOf(wrong: Wrong): Map<string, Property> {
  const properties = new Map<string, Property>()
  const runner: TestRunner = {
    describe: (_, body) => body(),
    it: (title, body) => properties.set(title, body),
  }
  const open = async () => {
    const clock = createVirtualClock()
    const store = memoryBackendWith(seamsOf(clock))
    const both = altered(store, wrong(store))
    return { ours: both, theirs: both, clock, close: () => store.close() }
  }
  testBackend(runner, { title: 'altered', ttlMsMin: 50, open })
  return properties
}

async function run(wrong: Wrong, property: string): Promise<void> {
  const body = propertiesOf(wrong).get(property)
  if (!body) throw new Error(`the suite has no property "${property}"`)
  const skip = (reason: string) => {
    throw new Error(`skipped: ${reason}`)
  }
  await body({ skip })
}

describe('the backend suite', () => {
  // A suite that lets a wrong backend pass is worse than none: its author believes it.
  it.each(CASES)('refuses a backend of which %s: %s', async (_, property, wrong) => {
    await run(NONE, property)
    await expect(run(wrong, property)).rejects.not.toThrow(/^skipped|has no property/)
  })
})
