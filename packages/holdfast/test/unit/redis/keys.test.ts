import { describe, expect, it } from 'vitest'
import { RedisKeys } from '../../../src/backends/redis/keys.ts'

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

describe('the keys of a lock', () => {
  // B078: during a rolling upgrade the old and the new version computed different keys, and both
  // held "the same" lock. Whoever changes a line here needs a major version and a way across.
  it.each(GOLDEN)('with the prefix "%s" and the name "%s" are as they always were', (...golden) => {
    const [prefix, name, lock, stripe] = golden
    expect(new RedisKeys(prefix).of(name)).toEqual({
      lock,
      counter: `${prefix}#hf:token:{${stripe}}`,
      want: `${prefix}#hf:want:${name}`,
    })
  })

  it('of a cancelled owner has the prefix and the owner', () => {
    const owner = 'AbCdEfGhIjKlMnOpQrStUg'
    expect(new RedisKeys('lock:').cancel(owner)).toBe(`lock:#hf:cancel:${owner}`)
    expect(new RedisKeys('').cancelStart).toBe('#hf:cancel:')
  })

  // The memory for composed keys must not mix names up, nor grow with every name ever used.
  it('are the same however many names were used in between', () => {
    const keys = new RedisKeys('p:')
    const before = Array.from({ length: 10 }, (_, index) => keys.of(`n${index}`))
    for (let index = 0; index < 5000; index++) keys.of(`other${index}`)
    const after = Array.from({ length: 10 }, (_, index) => keys.of(`n${index}`))
    expect(after).toEqual(before)
  })

  // One counter per name would leave a key that never expires for every name that was ever used.
  it('share 64 counters', () => {
    const keys = new RedisKeys('')
    const counters = new Set<string>()
    for (let index = 0; index < 5000; index++) counters.add(keys.of(`name ${index}`).counter)
    expect(counters.size).toBe(64)
    expect([...counters].sort().at(0)).toBe('#hf:token:{00}')
    expect([...counters].sort().at(-1)).toBe('#hf:token:{63}')
  })
})
