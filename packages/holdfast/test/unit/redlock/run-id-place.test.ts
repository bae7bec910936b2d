import { expect, it } from 'vitest'
import { ACQUIRE } from '../../../src/backends/redlock/scripts/acquire.ts'
import { EXTEND } from '../../../src/backends/redlock/scripts/extend.ts'
import { RAISE, RAISE_RECORDED } from '../../../src/backends/redlock/scripts/raise.ts'
import { REPAIR } from '../../../src/backends/redlock/scripts/repair.ts'
import { REVOKE } from '../../../src/backends/redlock/scripts/revoke.ts'

// The accident: an argument is put before it, and a TTL is overwritten by an id.
it.each([ACQUIRE, EXTEND, RAISE, RAISE_RECORDED, REPAIR, REVOKE])(
  'of $name the run_id stands where its header says',
  ({ lua, runIdAt }) => {
    expect(lua).toMatch(new RegExp(`^-- ARGV\\[${(runIdAt ?? Number.NaN) + 1}\\] run_id `, 'm'))
  },
)
