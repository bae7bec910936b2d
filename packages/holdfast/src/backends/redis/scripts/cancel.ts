import { defineScript, type RedisScript } from '../../../clients/redis.ts'

/**
 * Undoes an attempt, whether it has arrived or not: the owner's entry goes, and a tombstone keeps a
 * later arrival from being granted.
 */
export const CANCEL: RedisScript = defineScript(
  'cancel',
  /* lua */ `
-- KEYS[1] lock       string, the value of a grant; expires. Also the channel
-- KEYS[2] want       string, who waits; expires
-- KEYS[3] tombstone  string, of this owner; expires
-- ARGV[1] mark       'hf1:<owner>:'
-- ARGV[2] life       of the tombstone, milliseconds
-- Reply: 1 the entry was this owner's, 0 it was not
-- A cancel is repeated by some who do not know the TTL any more: never shortened.
local life = math.max(redis.call('PTTL', KEYS[3]), tonumber(ARGV[2]))
-- Under OOM Redis lets a script write whose first write was a DEL, of a key that need not be there.
redis.call('DEL', KEYS[3])
redis.call('SET', KEYS[3], '', 'PX', life)
local value = redis.call('MGET', KEYS[1])[1]
if not value or string.sub(value, 1, 27) ~= ARGV[1] then
  return 0
end
if redis.call('DEL', KEYS[1], KEYS[2]) == 2 then
  -- Last, and its failure is nobody's: a user without rights on channels has cancelled all the same.
  redis.pcall('PUBLISH', KEYS[1], '')
end
return 1
`,
)
