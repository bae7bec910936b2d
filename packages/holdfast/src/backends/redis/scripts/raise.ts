import { defineScript, type RedisScript } from '../../../clients/redis.ts'

/** Lifts the counter of a name's stripe; never lowers it. */
export const RAISE: RedisScript = defineScript(
  'raise',
  /* lua */ `
-- KEYS[1] counter  integer, the last token drawn; NEVER expires
-- ARGV[1] token    decimal text without leading zeros
-- Reply: 1 raised, 0 it stood there or higher
local last = redis.call('GET', KEYS[1])
-- By length, then by bytes: '10' < '9' as text, and numbers round above 2^53.
if last and (#last > #ARGV[1] or (#last == #ARGV[1] and last >= ARGV[1])) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
`,
)
