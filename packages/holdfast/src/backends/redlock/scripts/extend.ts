import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { GATE } from './gate.ts'

/**
 * Lengthens the entry if it is still this owner's and the node votes; never shortens, never creates.
 * A node that restarted may have forgotten a revoke or a newer holder, so its entry counts for nothing.
 */
export const EXTEND: RedisScript = defineScript(
  'extend',
  /* lua */ `
-- KEYS[1] lock    string, the value of the grant; expires
-- KEYS[2] marker  string, whether this node votes; NEVER expires
-- ARGV[1] mark    'hf1:<owner>:'
-- ARGV[2] ttl     milliseconds
-- ARGV[3] set id  22 characters
-- ARGV[4] run_id  of this server; '': to be asked
-- ARGV[5] token   19 digits, of this owner
-- Reply: {'ok'} it lives at least ttl from now on
--   {'free'} {'held'} by another {'revoked'} by an operator
--   {'resting'} nobody's, after an early release
local found = redis.call('MGET', KEYS[1], KEYS[2])
local value, marker = found[1], found[2]
local set_id, run_id, ttl = ARGV[3], ARGV[4], ARGV[2]
-- No token is drawn.
local counter = true
${GATE}
if value and string.sub(value, 1, 27) == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ttl) then
    redis.call('PEXPIRE', KEYS[1], ttl)
  end
  return {'ok'}
end
if not value then
  -- MGET answers nil for a key of another type as well.
  return {redis.call('EXISTS', KEYS[1]) == 0 and 'free' or 'held'}
end
if string.sub(value, 1, 27) == 'hf1:----------------------:' then
  return {'resting'}
end
if string.match(value, '^hf1:[%w_-]+:%d+:{"s":%d+,"r":"(%d+)"') == ARGV[5] then
  return {'revoked'}
end
return {'held'}
`,
  { runIdAt: 3 },
)
