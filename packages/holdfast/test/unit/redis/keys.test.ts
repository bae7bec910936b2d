import { assert, constantFrom, property, string } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InvalidArgumentError } from '../../../src/core/errors.ts'
import { type LockKeys, RedisKeys } from '../../../src/wire/keys.ts'
import { leavesTagsAlone, slotOf } from '../../../src/wire/slots.ts'

/** Stripes computed by another program: the first byte of SHA-1, modulo 64. */
const GOLDEN: readonly (readonly [prefix: string, name: string, lock: string, stripe: string])[] = [
  ['lock:', 'a', 'lock:a', '06'],
  ['lock:', 'wallet:42', 'lock:wallet:42', '23'],
  ['lock:', '{a}b', 'lock:{a}b', '43'],
  ['lock:', 'report daily', 'lock:report daily', '12'],
  ['lock:', '锁', 'lock:锁', '41'],
  ['lock:', 'é', 'lock:é', '63'],
  ['lock:', 'x'.repeat(512), `lock:${'x'.repeat(512)}`, '13'],
  ['', 'app1:job', 'app1:job', '48'],
  ['app1:lock:', 'nightly', 'app1:lock:nightly', '23'],
  ['app1:', '0', 'app1:0', '54'],
]

function keysOf(prefix: string, lockName: string): LockKeys | null {
  return new RedisKeys(prefix, false).of(lockName)
}

describe('the keys of a lock', () => {
  // B078: during a rolling upgrade the old and the new version computed different keys, and both
  // held "the same" lock. Whoever changes a line here needs a major version and a way across.
  it.each(GOLDEN)('with the prefix "%s" and the name "%s" are as they always were', (...golden) => {
    const [prefix, name, lock, stripe] = golden
    expect(keysOf(prefix, name)).toEqual({
      lock,
      counter: `${prefix}#hf:token:{${stripe}}`,
      want: `${prefix}#hf:want:${name}`,
      cancelStart: `${prefix}#hf:cancel:`,
    })
  })

  // The memory for composed keys must not mix names up, nor grow with every name ever used.
  it('are the same however many names were used in between', () => {
    const keys = new RedisKeys('p:', false)
    const before = Array.from({ length: 10 }, (_, index) => keys.of(`n${index}`))
    for (let index = 0; index < 5000; index++) keys.of(`other${index}`)
    const after = Array.from({ length: 10 }, (_, index) => keys.of(`n${index}`))
    expect(after).toEqual(before)
  })

  // One counter per name would leave a key that never expires for every name that was ever used.
  it('share 64 counters', () => {
    const keys = new RedisKeys('', false)
    const counters = new Set<string | undefined>()
    for (let index = 0; index < 5000; index++) counters.add(keys.of(`name ${index}`)?.counter)
    expect(counters.size).toBe(64)
    expect([...counters].sort().at(0)).toBe('#hf:token:{00}')
    expect([...counters].sort().at(-1)).toBe('#hf:token:{63}')
  })
})

/** Slots and tags computed by another program: `binascii.crc_hqx` of Python. */
const GOLDEN_IN_CLUSTER: readonly (readonly [
  clientPrefix: string,
  prefix: string,
  name: string,
  tag: string,
])[] = [
  ['', 'lock:', 'a', '0j4'],
  ['', 'lock:', 'wallet:42', '2WX'],
  ['', 'lock:', '{a}b', '062'],
  ['', 'lock:', 'a{}b{c}', '0ZJ'],
  ['', 'lock:', 'a{b', '7nM'],
  ['', 'lock:', 'a}b{c}', '060'],
  ['', 'lock:', '{{a}}', '0M2'],
  ['', 'lock:', '锁', '4mU'],
  ['', 'lock:', '{锁}1', '4BI'],
  ['', 'lock:', 'x'.repeat(512), '6hG'],
  ['', '', 'app1:job', '0AM'],
  ['app1:', 'lock:', 'nightly', '1kZ'],
  ['app1:', '', '{b}', '061'],
  ['{app1}:', 'lock:', '{b}', '5PK'],
  ['', '{app1}:', 'c', '5PK'],
]

/** Of a client that puts `clientPrefix` before keys. */
function keysInCluster(clientPrefix: string, prefix: string, lockName: string): LockKeys {
  const keys = new RedisKeys(prefix, true)
  expect(keys.of(lockName)).toBeNull()
  keys.learn('any', `${clientPrefix}${prefix}any`)
  const composed = keys.of(lockName)
  if (composed === null) throw new Error('the prefix of the client is known')
  return composed
}

describe('the keys of a lock in a cluster', () => {
  // B078, as above.
  it.each(GOLDEN_IN_CLUSTER)(
    'behind "%s" with the prefix "%s" and the name "%s" are as they always were',
    (...golden) => {
      const [clientPrefix, prefix, name, tag] = golden
      expect(keysInCluster(clientPrefix, prefix, name)).toEqual({
        lock: prefix + name,
        counter: `${prefix}#hf:token:{${tag}}`,
        want: `${prefix}#hf:want:{${tag}}${name}`,
        cancelStart: `${prefix}#hf:cancel:{${tag}}`,
      })
    },
  )

  // B060: one lock with helper keys failed with CROSSSLOT. A brace in a name, or in what the client
  // puts before it, decides where the lock's own key lies, and the helpers have to follow.
  it('all lie in one slot as they are sent, whatever the names and prefixes, or are refused', () => {
    const text = string({ unit: constantFrom('{', '}', 'a', 'b', ':', '锁'), maxLength: 12 })
    let refused = 0
    assert(
      property(text, text, text, (clientPrefix, prefix, name) => {
        if (!leavesTagsAlone(clientPrefix + prefix)) {
          const ask = () => keysInCluster(clientPrefix, prefix, name)
          expect(ask).toThrow(InvalidArgumentError)
          refused += 1
          return
        }
        const { lock, counter, want, cancelStart } = keysInCluster(clientPrefix, prefix, name)
        const keys = [lock, counter, want, cancelStart, `${cancelStart}${'o'.repeat(22)}`]
        const slots = keys.map((key) => slotOf(clientPrefix + key))
        expect(slots).toEqual(slots.map(() => slots[0]))
      }),
      { numRuns: 3000 },
    )
    expect(refused).toBeGreaterThan(0)
    expect(refused).toBeLessThan(3000)
  })

  // Refused for nothing would be as bad: a tag in a prefix is how people keep keys together.
  it.each([
    ['', true],
    ['lock:', true],
    ['}lock:', true],
    ['{app}', true],
    ['a{app}b{}c{', true],
    ['{{}', true],
    ['{', false],
    ['a{b', false],
    ['{}', false],
    ['{}{app}', false],
  ])('may begin with "%s": %s', (prefix, isAllowed) => {
    expect(leavesTagsAlone(prefix)).toBe(isAllowed)
  })
})
