import { NOW } from '../../../wire/now.ts'

/**
 * Part of the scripts that grant: draws the next fencing token.
 *
 * Takes the local `counter`, a key; leaves `now` (microseconds since 1970) and `token`, both decimal
 * text: Lua's numbers are doubles and round above 2^53.
 *
 * The token is max(counter + 1, clock), so that tokens go on rising when the counter is lost (a
 * flush, an eviction, a restart without data) as long as the clock goes forward. The counter is
 * written before the lock: Redis keeps what a script wrote before it failed, and a token that was
 * drawn in vain is harmless, a lock without a counter is not.
 */
export const NEXT_TOKEN: string = /* lua */ `
${NOW}
local token = now
local last = redis.call('GETSET', counter, now)
-- By length, then by bytes: '10' < '9' as text.
if last and (#last > #now or (#last == #now and last >= now)) then
  redis.call('SET', counter, last)
  if last == '9223372036854775807' then
    return {'no-token'}
  end
  redis.call('INCR', counter)
  -- Read back, because the reply of INCR is a number.
  token = redis.call('GET', counter)
end
`
