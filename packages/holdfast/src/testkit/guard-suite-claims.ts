/** The claim: which token is let through, exactly, and what is said of the others. */
import { deepStrictEqual, ok, rejects, strictEqual } from 'node:assert/strict'
import type { Fenced } from '../core/backend.ts'
import {
  InvalidArgumentError,
  StaleTokenError,
  TokenConflictError,
  TokenSourceError,
} from '../core/errors.ts'
import { TOKEN_MAX } from '../core/token.ts'
import {
  fenced,
  type GuardCheck,
  NEIGHBOURS,
  OTHER_OWNER,
  OWNER,
  outcome,
} from './guard-suite-harness.ts'

export function testClaims<Tx>(check: GuardCheck<Tx>): void {
  // A token that is rounded, or compared as text, lets a superseded holder in or keeps the next out.
  check('the larger of two neighbouring tokens supersedes the smaller, exactly', async (store) => {
    const { guard } = store.ours
    for (const [smaller, larger] of NEIGHBOURS) {
      const resource = `${store.lockName}:${larger}`
      await guard.claim(fenced(resource, smaller))
      deepStrictEqual(await guard.highest(resource), record(smaller))
      deepStrictEqual(await guard.claim(fenced(resource, larger, { owner: OTHER_OWNER })), {
        seq: 1n,
      })
      const refused = await outcome(guard.claim(fenced(resource, smaller)))
      strictEqual(refused.status, 'rejected')
      const { reason } = refused
      ok(reason instanceof StaleTokenError, String(reason))
      strictEqual(reason.resource, resource)
      strictEqual(reason.presented, smaller)
      strictEqual(reason.highest, larger)
      deepStrictEqual(await guard.highest(resource), record(larger, OTHER_OWNER))
    }
  })

  // A holder writes more than once, and a retry of a lost reply presents the same token again.
  check('one lease claims again and again, and each claim is counted', async (store) => {
    const lease = fenced(store.lockName, 5n)
    for (let seq = 1n; seq <= 4n; seq += 1n) {
      const side = seq % 2n === 0n ? store.theirs : store.ours
      deepStrictEqual(await side.guard.claim(lease), { seq })
    }
    // The count is that of a token: the next one begins anew.
    deepStrictEqual(await store.ours.guard.claim(fenced(store.lockName, 6n)), { seq: 1n })
  })

  // A store that lost its data while its clock went back grants one token twice.
  check('a token that another owner claimed is a conflict, and changes nothing', async (store) => {
    const { guard } = store.ours
    await guard.claim(fenced(store.lockName, 5n))
    const theirs = fenced(store.lockName, 5n, { owner: OTHER_OWNER })
    await rejects(guard.claim(theirs), (error) => {
      ok(error instanceof TokenConflictError, String(error))
      return error.resource === store.lockName
    })
    deepStrictEqual(await guard.highest(store.lockName), record(5n))
    deepStrictEqual(await guard.claim(fenced(store.lockName, 5n)), { seq: 2n })
  })

  // An answer was lost, and the driver sent the statement again.
  check('a claim that arrives twice is applied once', async (store) => {
    const lease = fenced(store.lockName, 5n)
    const resent = (await store.open({ nonce: () => OTHER_OWNER })).guard
    deepStrictEqual(await resent.claim(lease), { seq: 1n })
    deepStrictEqual(await resent.claim(lease), { seq: 1n })
    deepStrictEqual(await store.ours.guard.claim(lease), { seq: 2n })
    deepStrictEqual(await resent.claim(lease), { seq: 3n })
  })

  testArguments(check)
  testSources(check)
  testNames(check)
}

function testArguments<Tx>(check: GuardCheck<Tx>): void {
  // What is wrong must be found here: a store may round, cut or accept it.
  check('what is not a token, an owner or a source is refused before it is sent', async (store) => {
    const { lockName } = store
    const good = fenced(lockName, 5n)
    const wrong: readonly Readonly<Record<string, unknown>>[] = [
      { fencingToken: undefined },
      { fencingToken: null },
      { fencingToken: 0n },
      { fencingToken: -1n },
      { fencingToken: TOKEN_MAX + 1n },
      { fencingToken: 5 },
      { fencingToken: 5.5 },
      { fencingToken: Number.NaN },
      { fencingToken: '5' },
      { owner: '' },
      { owner: 'short' },
      { owner: `${OWNER.slice(1)}'` },
      { source: '' },
      { source: undefined },
      { source: 'suite\0' },
      { lockName: '' },
      { lockName: undefined },
      { lockName: `${lockName}\0` },
      { lockName: `${lockName}\ud800` },
    ]
    for (const fields of wrong) {
      const presented = { ...good, ...fields } as Fenced
      for (const { guard } of [store.ours, store.theirs]) {
        const runs = [guard.claim(presented), guard.adopt(presented)]
        let isRun = false
        const work = async (): Promise<void> => {
          isRun = true
        }
        for (const run of [...runs, guard.transaction(presented, work)]) {
          const { reason } = (await outcome<unknown>(run)) as PromiseRejectedResult
          ok(
            reason instanceof InvalidArgumentError,
            `${JSON.stringify(Object.keys(fields))}: ${reason}`,
          )
        }
        strictEqual(isRun, false)
      }
    }
    strictEqual(await store.ours.guard.highest(lockName), null)
  })

  check('nothing is recorded of a resource that nobody claimed', async (store) => {
    strictEqual(await store.ours.guard.highest(store.lockName), null)
    await rejects(store.ours.guard.highest(''), InvalidArgumentError)
  })
}

function testSources<Tx>(check: GuardCheck<Tx>): void {
  const b = { source: 'suite:b' }

  // Locks were moved to another store, whose tokens began lower or higher: neither means anything.
  check('a token of another source is refused, whichever is larger', async (store) => {
    const { guard } = store.ours
    const { lockName } = store
    await guard.claim(fenced(lockName, 50n))
    for (const token of [1n, 50n, 51n, TOKEN_MAX]) {
      await rejects(guard.claim(fenced(lockName, token, b)), (error) => {
        ok(error instanceof TokenSourceError, String(error))
        deepStrictEqual([error.presented, error.recorded], ['suite:b', 'suite:a'])
        return error.resource === lockName
      })
    }
    deepStrictEqual(await guard.highest(lockName), record(50n))
  })

  check(
    'after adopt the new source counts, even with a smaller token, and the old no more',
    async (store) => {
      const { guard } = store.ours
      const { lockName } = store
      await guard.claim(fenced(lockName, 50n))
      await guard.claim(fenced(lockName, 50n))
      await guard.adopt(fenced(lockName, 3n, { ...b, owner: OTHER_OWNER }))
      deepStrictEqual(await guard.highest(lockName), {
        fencingToken: 3n,
        owner: OTHER_OWNER,
        source: 'suite:b',
      })
      const next = fenced(lockName, 3n, { ...b, owner: OTHER_OWNER })
      deepStrictEqual(await store.theirs.guard.claim(next), { seq: 2n })
      await rejects(store.theirs.guard.claim(fenced(lockName, 51n)), TokenSourceError)
    },
  )

  // Adopting by mistake must not become a way around the fence.
  check('adopt within one source is an ordinary claim', async (store) => {
    const { guard } = store.ours
    const { lockName } = store
    await guard.adopt(fenced(lockName, 5n))
    await guard.adopt(fenced(lockName, 6n, { owner: OTHER_OWNER }))
    await rejects(guard.adopt(fenced(lockName, 5n)), StaleTokenError)
    await rejects(guard.adopt(fenced(lockName, 6n)), TokenConflictError)
    deepStrictEqual(await guard.highest(lockName), record(6n, OTHER_OWNER))
  })
}

function testNames<Tx>(check: GuardCheck<Tx>): void {
  // A name that ends a statement, or loses a backslash, claims for somebody else.
  check('every name and source is kept exactly as it is', async (store) => {
    const { guard } = store.ours
    for (const text of AWKWARD) {
      const lockName = `${store.lockName}${text}`
      const lease = fenced(lockName, 5n, { source: `suite:${text}` })
      await guard.claim(lease)
      await guard.claim(lease)
      deepStrictEqual(await guard.highest(lockName), {
        fencingToken: 5n,
        owner: OWNER,
        source: `suite:${text}`,
      })
    }
    strictEqual(await guard.highest(store.lockName), null)
  })

  // Locks on parts of one account must not exclude each other's holders by their own numbers.
  check('a mapping decides which record a lock name stands for', async (store) => {
    const account = `account:${store.lockName}`
    const { guard } = await store.open({ resource: () => account })
    await guard.claim(fenced('wallet:1', 5n))
    await guard.claim(fenced('wallet:2', 7n, { owner: OTHER_OWNER }))
    await rejects(guard.claim(fenced('wallet:1', 6n)), (error) => {
      return error instanceof StaleTokenError && error.resource === account
    })
    deepStrictEqual(await guard.highest(account), record(7n, OTHER_OWNER))
    strictEqual(await store.ours.guard.highest('wallet:1'), null)
  })

  check('a mapping that gives no text is refused before anything is sent', async (store) => {
    for (const name of ['', 'a\0', undefined as never]) {
      const { guard } = await store.open({ resource: () => name })
      await rejects(guard.claim(fenced(store.lockName, 5n)), InvalidArgumentError)
    }
  })
}

const AWKWARD: readonly string[] = [
  `'`,
  `''`,
  `"`,
  '\\',
  `\\'; DROP TABLE fences; --`,
  '$1',
  '$$',
  `E'\\x27'`,
  '%s',
  ' leading and trailing ',
  'line\nbreak\r\ttab',
  'é',
  '漢\\字',
  "中\\'",
  '\u{1f512}',
  '\u0301\u200b',
  '\x7f\x01',
  'x'.repeat(400),
]

function record(fencingToken: bigint, owner = OWNER): Omit<Fenced, 'lockName'> {
  return { fencingToken, owner, source: 'suite:a' }
}
