import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { WANT_MS } from '../../../wire/look.ts'
import { DRAW } from './draw.ts'
import { GATE } from './gate.ts'

/**
 * Grants the name on this node if the node votes and the name is free, or repeats the grant if this
 * very owner has it. A repeat answers what is recorded, so counting it is exact; but an entry that was
 * written by a repair is no vote of the attempt (the repair knew the token already).
 *
 * Everything is read by one MGET, which answers nil for a key of another type; such a one at the
 * lock's key is met by SET NX, after a token was drawn in vain.
 *
 * The owner is read from the end of the tombstone's key, and a token below 2^53 is answered as an
 * integer, as on a single Redis.
 */
export const ACQUIRE: RedisScript = defineScript(
  'acquire',
  /* lua */ `
-- KEYS[1] lock       string, the value of the grant; expires
-- KEYS[2] tombstone  string, stands if this owner was cancelled; expires. Ends with the owner
-- KEYS[3] counter    integer, the last token drawn; NEVER expires
-- KEYS[4] marker     string, whether this node votes; NEVER expires
-- KEYS[5] want       string, who waits; expires. Absent if this contender does not wait
-- ARGV[1] ttl        milliseconds
-- ARGV[2] set id     22 characters
-- ARGV[3] run_id     of this server; '': to be asked
-- ARGV[4] floor      the client's clock, microseconds since 1970
-- ARGV[5] metadata   the JSON behind {"s":<since>
-- ARGV[6] mark       who waits; with KEYS[5]
-- Reply: the token when granted: an integer below 9007199254740000, decimal text from there on
--   {'again', token of 19 digits, remaining ms}     to the owner that has it
--   {'repaired'}                                    to the owner that has it, but it is no vote
--   {'held', remaining ms, metadata, lock key, token of 19 digits}
--                                                   both '' for a foreign value
--   {'cancelled'}
--   {'not-a-lock', lock key, what it is}
--   {'no-token'}                                    the counter stands at its end
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
local value, counter, marker = found[1], found[3], found[4]
local ttl, set_id, run_id = ARGV[1], ARGV[2], ARGV[3]
${GATE}
if found[2] then
  return {'cancelled'}
end
local own = 'hf1:' .. string.sub(KEYS[2], -22) .. ':'
if value then
  local left = redis.call('PTTL', KEYS[1])
  if string.sub(value, 1, 27) == own then
    if string.find(value, '^{"s":%d+,"f":1,', 48) then
      return {'repaired'}
    end
    if left < 0 then
      redis.call('PEXPIRE', KEYS[1], ttl)
      left = tonumber(ttl)
    end
    return {'again', string.sub(value, 28, 46), left}
  end
  if left < 0 then
    return {'not-a-lock', KEYS[1], 'it never expires'}
  end
  if KEYS[5] then
    -- A mark that cannot be written costs a poll; the refusal stands.
    redis.pcall('SET', KEYS[5], ARGV[6], 'PX', ${WANT_MS})
  end
  if string.sub(value, 1, 4) == 'hf1:' then
    return {'held', left, string.sub(value, 48, 2048), KEYS[1], string.sub(value, 28, 46)}
  end
  return {'held', left, '', KEYS[1], ''}
end
local counter_key, proposed = KEYS[3], ARGV[4]
${DRAW}
local zeros = #token == 16 and '000' or string.rep('0', 19 - #token)
if not redis.call('SET', KEYS[1], own .. zeros .. token .. ':{"s":' .. now .. ARGV[5], 'PX', ttl, 'NX') then
  return {'not-a-lock', KEYS[1], 'it is a ' .. redis.call('TYPE', KEYS[1]).ok}
end
if #token < 16 or (#token == 16 and token < '9007199254740000') then
  return tonumber(token)
end
return token
`,
  { runIdAt: 2 },
)
