import { defineScript, type RedisScript } from '../../../clients/redis.ts'

/**
 * Undoes an attempt or a repair on this node, whether it has arrived or not: the owner's entry goes,
 * and a tombstone keeps a later arrival from being granted. A node that must not vote does it too.
 *
 * The counter is lifted to the largest token that the attempt saw anywhere, which keeps the nodes
 * level; where there is no counter the node does not vote, and must not come to by a cancel.
 */
export const CANCEL: RedisScript = defineScript(
  'cancel',
  /* lua */ `
-- KEYS[1] lock       string, the value of a grant; expires. Also the channel
-- KEYS[2] want       string, who waits; expires
-- KEYS[3] tombstone  string, of this owner; expires
-- KEYS[4] counter    integer, the last token drawn; NEVER expires
-- ARGV[1] mark       'hf1:<owner>:'
-- ARGV[2] life       of the tombstone, milliseconds
-- ARGV[3] seen       decimal text, a token that some node granted; '0': none
-- Reply: 1 the entry was this owner's, 0 it was not
-- A cancel is repeated by some who do not know the TTL any more: never shortened.
local life = math.max(redis.call('PTTL', KEYS[3]), tonumber(ARGV[2]))
-- Under OOM Redis lets a script write whose first write was a DEL, of a key that need not be there.
redis.call('DEL', KEYS[3])
redis.call('SET', KEYS[3], '', 'PX', life)
local found = redis.call('MGET', KEYS[1], KEYS[4])
local value, counter = found[1], found[2]
-- By length, then by bytes: '10' < '9' as text.
if counter and (#counter < #ARGV[3] or (#counter == #ARGV[3] and counter < ARGV[3])) then
  redis.call('SET', KEYS[4], ARGV[3])
end
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
