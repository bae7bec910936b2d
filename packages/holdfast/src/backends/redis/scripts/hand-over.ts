import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { NEXT_TOKEN } from './next-token.ts'

/** Releases and grants to the next owner in one step, or frees the name for another process. */
export const HAND_OVER: RedisScript = defineScript(
  'hand-over',
  /* lua */ `
-- KEYS[1] lock          string, the value of the grant; expires. Also the channel
-- KEYS[2] want          string, who waits; expires
-- KEYS[3] counter       integer, the last token drawn; NEVER expires
-- KEYS[4] tombstone     string, stands if the next owner was cancelled; expires
-- KEYS[5] own tombstone string, of the old owner; expires
-- ARGV[1] mark          'hf1:<old owner>:'
-- ARGV[2] next owner    22 characters
-- ARGV[3] ttl           milliseconds, of the next owner
-- ARGV[4] metadata      of the next owner, the JSON behind {"s":<since>
-- ARGV[5] waiter        the mark by which this process waits: nobody foreign
-- ARGV[6] even          '1': hand over although another process waits
-- Reply: {'handed-over', token, 1 if another process waits, else 0}
--   {'again', token of 19 digits, the same, remaining ms}  the answer to a repeat
--   {'freed'} {'not-held'} {'no-token'}
-- Under OOM Redis lets a script write whose first write was a DEL, of a key that need not be there.
redis.call('DEL', KEYS[5])
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[4])
local value = found[1] or ''
local foreign = found[2] and found[2] ~= ARGV[5]
local next_mark = 'hf1:' .. ARGV[2] .. ':'
if string.sub(value, 1, 27) == next_mark then
  return {'again', string.sub(value, 28, 46), foreign and 1 or 0, redis.call('PTTL', KEYS[1])}
end
if string.sub(value, 1, 27) ~= ARGV[1] then
  return {'not-held'}
end
if found[3] or (foreign and ARGV[6] ~= '1') then
  redis.call('DEL', KEYS[1], KEYS[2])
  if found[2] then
    -- Last, and its failure is nobody's: a user without rights on channels has freed it all the same.
    redis.pcall('PUBLISH', KEYS[1], '')
  end
  return {'freed'}
end
local counter = KEYS[3]
${NEXT_TOKEN}
value = next_mark .. string.rep('0', 19 - #token) .. token .. ':{"s":' .. now .. ARGV[4]
redis.call('SET', KEYS[1], value, 'PX', ARGV[3])
return {'handed-over', token, foreign and 1 or 0}
`,
)
