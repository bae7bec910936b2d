import { defineScript, type RedisScript } from '../../../clients/redis.ts'

/**
 * Lengthens the entry if it is still this owner's; never shortens, never creates.
 *
 * The PTTL is compared here instead of by PEXPIRE GT, which Redis has only from 7.0 on, and which
 * leaves a key without TTL as it is.
 */
export const RENEW: RedisScript = defineScript(
  'renew',
  /* lua */ `
-- KEYS[1] lock   string, the value of the grant; expires
-- ARGV[1] mark   'hf1:<owner>:'
-- ARGV[2] ttl    milliseconds
-- ARGV[3] token  19 digits, of this owner
-- Reply: 'renewed', 'expired', 'superseded' or 'revoked'
local value = redis.call('MGET', KEYS[1])[1]
if value and string.sub(value, 1, 27) == ARGV[1] then
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
  end
  return 'renewed'
end
if not value then
  -- MGET answers nil for a key of another type as well.
  return redis.call('EXISTS', KEYS[1]) == 0 and 'expired' or 'superseded'
end
if string.sub(value, 1, 27) == 'hf1:----------------------:' then
  return 'expired'
end
if string.match(value, '^hf1:[%w_-]+:%d+:{"s":%d+,"r":"(%d+)"') == ARGV[3] then
  return 'revoked'
end
return 'superseded'
`,
)
