import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { WANT_MS } from '../../../wire/look.ts'
import { NEXT_TOKEN } from './next-token.ts'

/** Apart from the script, because another one contains it (gate.ts). */
export const ACQUIRE_LUA: string = /* lua */ `
-- KEYS[1] lock       string, the value of the grant; expires
-- KEYS[2] tombstone  string, stands if this owner was cancelled; expires. Ends with the owner
-- KEYS[3] counter    integer, the last token drawn; NEVER expires
-- KEYS[4] want       string, who waits; expires. Absent if this contender does not wait
-- ARGV[1] ttl        milliseconds
-- ARGV[2] metadata   the JSON behind {"s":<since>
-- ARGV[3] mark       who waits; with KEYS[4]
-- Reply: the token when granted: an integer below 9007199254740000, decimal text from there on
--   {'again', token of 19 digits, remaining ms}     to the owner that has it
--   {'held', remaining ms, metadata, lock key, token of 19 digits}
--                                                   both '' for a foreign value
--   {'cancelled'}
--   {'not-a-lock', lock key, what it is}
--   {'no-token'}                                    the counter stands at its end
local own = 'hf1:' .. string.sub(KEYS[2], -22) .. ':'
if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then
  local found = redis.call('MGET', KEYS[1], KEYS[2])
  if found[2] then
    return {'cancelled'}
  end
  local value = found[1]
  if not value then
    return {'not-a-lock', KEYS[1], 'it is a ' .. redis.call('TYPE', KEYS[1]).ok}
  end
  local left = redis.call('PTTL', KEYS[1])
  if string.sub(value, 1, 27) == own then
    if left < 0 then
      redis.call('PEXPIRE', KEYS[1], ARGV[1])
      left = tonumber(ARGV[1])
    end
    return {'again', string.sub(value, 28, 46), left}
  end
  if left < 0 then
    return {'not-a-lock', KEYS[1], 'it never expires'}
  end
  if KEYS[4] then
    -- A mark that cannot be written costs a poll; the refusal stands.
    redis.pcall('SET', KEYS[4], ARGV[3], 'PX', ${WANT_MS})
  end
  local metadata, token = '', ''
  if string.sub(value, 1, 4) == 'hf1:' then
    metadata = string.sub(value, 48, 2048)
    token = string.sub(value, 28, 46)
  end
  return {'held', left, metadata, KEYS[1], token}
end
local counter = KEYS[3]
${NEXT_TOKEN}
local zeros = #token == 16 and '000' or string.rep('0', 19 - #token)
redis.call('SET', KEYS[1], own .. zeros .. token .. ':{"s":' .. now .. ARGV[2], 'PX', ARGV[1])
if #token < 16 or (#token == 16 and token < '9007199254740000') then
  return tonumber(token)
end
return token
`

/**
 * Grants the name if it is free, or repeats the grant if this very owner has it: then the first
 * answer was lost, nobody was granted it in between, and the token recorded is exact.
 *
 * A free name is found by EXISTS, for a key of any type and for the tombstone at once: what follows
 * for a taken one is off the path that is timed. MGET there, because it answers nil for a key of
 * another type.
 *
 * The owner is read from the end of the tombstone's key: an argument of its own costs client and
 * server more than all that is done with it.
 *
 * A token is answered as an integer where a double holds it exactly; clients read it with half the
 * work. Shortly below 2^53 it is text already: clients of both families read the last digit as its
 * byte less 48, after adding it to the rest, and that sum must be exact too.
 */
export const ACQUIRE: RedisScript = defineScript('acquire', ACQUIRE_LUA)
