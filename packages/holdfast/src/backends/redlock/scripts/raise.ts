import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { GATE } from './gate.ts'

/**
 * The second round of an attempt: lifts the token recorded in the entry, if it is still this owner's,
 * and the counter with it. The answer is what is recorded now, which is a vote for exactly that token.
 */
export const RAISE_RECORDED: RedisScript = defineScript(
  'raise of the recorded token',
  /* lua */ `
-- KEYS[1] lock     string, the value of the grant; expires
-- KEYS[2] counter  integer, the last token drawn; NEVER expires
-- KEYS[3] marker   string, whether this node votes; NEVER expires
-- ARGV[1] mark     'hf1:<owner>:'
-- ARGV[2] token    19 digits
-- ARGV[3] set id   22 characters
-- ARGV[4] run_id   of this server; '': to be asked
-- Reply: {'ok', token of 19 digits that is recorded now}
--   {'not-owner'}
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3])
local value, counter, marker = found[1], found[2], found[3]
local set_id, run_id, ttl = ARGV[3], ARGV[4], nil
${GATE}
if not value or string.sub(value, 1, 27) ~= ARGV[1] then
  return {'not-owner'}
end
local recorded = string.sub(value, 28, 46)
local raised = recorded < ARGV[2] and ARGV[2] or recorded
local token = string.match(raised, '^0*(%d+)$') or '0'
-- Before the lock, and by length, then by bytes: '10' < '9' as text.
if #counter < #token or (#counter == #token and counter < token) then
  redis.call('SET', KEYS[2], token)
end
if raised ~= recorded then
  -- A plain SET would take the TTL away.
  redis.call('SET', KEYS[1], ARGV[1] .. raised .. string.sub(value, 47), 'XX', 'KEEPTTL')
end
return {'ok', raised}
`,
  { runIdAt: 3 },
)

/** Lifts the counter of a name's stripe; never lowers it, and never makes one: it would vote. */
export const RAISE: RedisScript = defineScript(
  'raise',
  /* lua */ `
-- KEYS[1] counter  integer, the last token drawn; NEVER expires
-- KEYS[2] marker   string, whether this node votes; NEVER expires
-- ARGV[1] token    decimal text without leading zeros
-- ARGV[2] set id   22 characters
-- ARGV[3] run_id   of this server; '': to be asked
-- Reply: 1 raised, 0 it stood there or higher
local found = redis.call('MGET', KEYS[1], KEYS[2])
local counter, marker = found[1], found[2]
local set_id, run_id, ttl = ARGV[2], ARGV[3], nil
${GATE}
-- By length, then by bytes: '10' < '9' as text.
if #counter > #ARGV[1] or (#counter == #ARGV[1] and counter >= ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1
`,
  { runIdAt: 2 },
)
