/** What people see of a lock, and which names can be had: all of them, each apart from all others. */
import { deepStrictEqual, ok, strictEqual } from 'node:assert/strict'
import type { Backend, Grant, LockInfo } from '../core/backend.ts'
import { acquired, type Check, LONG_MS, lapsed, untilGranted } from './backend-harness.ts'

/** Behind a prefix of the check's own; pairs that a careless key or pattern takes for one. */
const NAMES: readonly string[] = [
  'a',
  'A',
  'a ',
  ' a',
  'a/b',
  'a%2Fb',
  'a:b',
  'a::b',
  '{a}',
  '{a}b',
  'a{b}',
  '{}a',
  '{a',
  '}a{',
  'a*',
  'a?',
  '[ab]',
  '\\a',
  'a\\*',
  "it's",
  '"quoted"',
  '`$(a)`',
  "'; drop table locks; --",
  'a\nb',
  'a\tb',
  '\u00e9',
  'e\u0301',
  '\u{1f512}',
  '\u{1f512}\u200d',
  '锁',
  '#hf',
  '#:a',
  'hf1:a',
  '0',
  '00',
]
const NAME_BYTES_MAX = 512
const SINCE_AT_MS_MIN = Date.UTC(2020)
const SINCE_AT_MS_MAX = Date.UTC(2100)

export function testLooking(check: Check): void {
  testNames(check)
  testInspect(check)
  testProclaim(check)
  testList(check)
}

function testNames(check: Check): void {
  // Two names that share a key are one lock: one job waits for another that it has nothing to do
  // with, or worse, one name reaches the helper keys of another.
  check('every name is a lock of its own', async ({ ours, theirs, lockName }) => {
    const names = NAMES.map((name) => `${lockName}${name}`)
    const longest = NAME_BYTES_MAX - Buffer.byteLength(lockName)
    names.push(`${lockName}${'x'.repeat(longest)}`, `${lockName}${'x'.repeat(longest - 1)}y`)
    names.push(`${lockName}${'é'.repeat(longest / 2)}`)
    const grants: Grant[] = []
    for (const name of names) grants.push(await acquired(ours, name))
    deepStrictEqual(
      (await listed(theirs, lockName)).map((info) => info.lockName).sort(),
      [...names].sort(),
    )
    for (const grant of grants) {
      const seen = await theirs.inspect(grant.lockName)
      strictEqual(seen?.lockName, grant.lockName)
      strictEqual(seen?.fencingToken, grant.fencingToken)
    }
    for (const [index, grant] of grants.entries()) {
      strictEqual(await ours.release(grant, 0), 'released')
      strictEqual(await theirs.inspect(grant.lockName), null)
      const after = names[index + 1]
      if (after !== undefined) ok(await theirs.inspect(after), `${after} is still held`)
    }
  })
}

function testInspect(check: Check): void {
  check(
    'inspect shows who holds a name, with which token, since when and how long',
    async (store) => {
      const { ours, theirs, lockName } = store
      strictEqual(await theirs.inspect(lockName), null)
      const holder = { host: 'host', pid: 7, label: 'label', value: 'value' }
      const grant = await acquired(ours, lockName, { holder })
      const seen = await theirs.inspect(lockName)
      if (!seen) throw new Error('it is held')
      strictEqual(seen.lockName, lockName)
      strictEqual(seen.fencingToken, grant.fencingToken)
      deepStrictEqual({ ...seen.holder }, holder)
      strictEqual(seen.foreignOwner, null)
      const sinceAtMs = seen.sinceAtMs ?? SINCE_AT_MS_MIN
      ok(sinceAtMs >= SINCE_AT_MS_MIN && sinceAtMs <= SINCE_AT_MS_MAX, `since ${sinceAtMs}`)
      const remainingMs = seen.remainingMs ?? LONG_MS
      ok(remainingMs > 0 && remainingMs <= LONG_MS + store.roundingMs, `${remainingMs} ms remain`)
    },
  )

  // A label with a quote or an emoji broke the value's own format, and the lock with it.
  check('label and value come back as they were, up to their full size', async (store) => {
    const { ours, theirs, lockName } = store
    const pairs: readonly (readonly [label: string, value: string])[] = [
      ['', ''],
      ['it’s "quoted" \\ {"json":1}', 'line\nbreak\ttab \u0001 end'],
      [':::', 'hf1:x:y'],
      ['é'.repeat(128), '\u{1f512}'.repeat(128)],
      ['"'.repeat(256), '\\'.repeat(512)],
      ['\u0001'.repeat(256), '\u0001'.repeat(512)],
      ['\u2028', '\u0000'],
    ]
    for (const [index, [label, value]] of pairs.entries()) {
      const name = `${lockName}:${index}`
      const holder = { host: 'h'.repeat(64), pid: 2 ** 22, label, value }
      const grant = await acquired(ours, name, { holder })
      deepStrictEqual({ ...(await theirs.inspect(name))?.holder }, holder)
      strictEqual((await ours.renew(grant, LONG_MS)).kind, 'renewed')
      strictEqual(await ours.release(grant, 0), 'released')
    }
  })
}

function testProclaim(check: Check): void {
  // A leader says where it can be reached; a value that is rewritten without its TTL never ends.
  check('proclaim replaces the value and nothing else', async (store) => {
    const { ours, theirs, lockName } = store
    const holder = { host: 'host', pid: 7, label: 'label' }
    const grant = await acquired(ours, lockName, { holder })
    for (const value of ['one', '{"two":"☃"}', '']) {
      strictEqual(await ours.proclaim(grant, value), 'proclaimed')
      const seen = await theirs.inspect(lockName)
      deepStrictEqual({ ...seen?.holder }, { ...holder, value })
      strictEqual(seen?.fencingToken, grant.fencingToken)
      const remainingMs = seen?.remainingMs ?? LONG_MS
      ok(remainingMs > 0 && remainingMs <= LONG_MS + store.roundingMs, `${remainingMs} ms remain`)
    }
    strictEqual((await ours.renew(grant, LONG_MS)).kind, 'renewed')
    strictEqual(await ours.release(grant, 0), 'released')
  })

  // A deposed leader that goes on speaking would send everybody to the wrong address.
  check('only the holder proclaims, and proclaiming creates nothing', async (store) => {
    const { ours, theirs, lockName, ttlMs } = store
    const deposed = await acquired(ours, lockName, { ttlMs })
    await lapsed(store, deposed)
    strictEqual(await ours.proclaim(deposed, 'me'), 'not-held')
    strictEqual(await theirs.inspect(lockName), null)
    const leader = await untilGranted(store, theirs, lockName)
    strictEqual(await theirs.proclaim(leader, 'them'), 'proclaimed')
    strictEqual(await ours.proclaim(deposed, 'me'), 'not-held')
    strictEqual((await ours.inspect(lockName))?.holder?.value, 'them')
  })
}

function testList(check: Check): void {
  // Patterns of the store's own: a prefix with a star lists, and lets one revoke, what others hold.
  check('list takes its prefix by the letter', async ({ ours, theirs, lockName }) => {
    const prefixes = ['*', '?', '[a]', '\\', '{a}', '%', '_', '']
    for (const prefix of prefixes) await acquired(ours, `${lockName}${prefix}end`)
    for (const prefix of prefixes.slice(0, -1)) {
      const found = (await listed(theirs, `${lockName}${prefix}`)).map((info) => info.lockName)
      deepStrictEqual(found, [`${lockName}${prefix}end`])
    }
    await acquired(ours, `before:${lockName}`)
    strictEqual((await listed(theirs, lockName)).length, prefixes.length)
    deepStrictEqual(await listed(theirs, `${lockName}nothing`), [])
  })

  check('list shows what inspect shows, of what is held, up to its limit', async (store) => {
    const { ours, theirs, lockName } = store
    const grants: Grant[] = []
    for (let index = 0; index < 12; index++) {
      const holder = { host: 'host', pid: index, label: `${index}` }
      grants.push(
        await acquired(index % 2 === 0 ? ours : theirs, `${lockName}:${index}`, { holder }),
      )
    }
    await ours.release(grants[0] as Grant, 0)
    await theirs.release(grants[1] as Grant, LONG_MS)
    const found = await listed(ours, lockName)
    strictEqual(found.length, 10)
    for (const info of found) {
      const grant = grants.find(({ lockName: name }) => name === info.lockName)
      strictEqual(info.fencingToken, grant?.fencingToken)
      strictEqual(`${lockName}:${info.holder?.label}`, info.lockName)
    }
    strictEqual((await listed(ours, lockName, 3)).length, 3)
    strictEqual((await listed(ours, lockName, 10)).length, 10)
  })
}

async function listed(backend: Backend, prefix: string, limit = 1000): Promise<LockInfo[]> {
  const found = new Map<string, LockInfo>()
  // A store that is walked while it changes may show one name twice.
  for await (const info of backend.list(prefix, limit)) found.set(info.lockName, info)
  return [...found.values()]
}
