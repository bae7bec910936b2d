import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { DRAW } from './draw.ts'
import { GATE } from './gate.ts'

/**
 * Swaps the entry, if it is still that of the owner seen, for a vote for the operator's attempt, with
 * what was left of its life. Nobody is woken: the name is not free.
 *
 * Bound to the owner, not to the token: a node may have recorded another token than the lease's.
 * The tombstone of the old owner keeps its repair away.
 */
export const REVOKE: RedisScript = defineScript(
  'revoke',
  /* lua */ `
-- KEYS[1] lock       string, the value of the grant; expires
-- KEYS[2] tombstone  string, stands if the operator's attempt was cancelled; expires
-- KEYS[3] counter    integer, the last token drawn; NEVER expires
-- KEYS[4] marker     string, whether this node votes; NEVER expires
-- KEYS[5] tombstones no key, but how their keys begin; the old owner is appended
-- ARGV[1] owner      22 characters, the operator's
-- ARGV[2] seen       the holder: 22 characters; or 40: the SHA-1 of a foreign value
-- ARGV[3] seen token 19 digits: the holder's, of which it will be told; unused for a foreign value
-- ARGV[4] ttl        milliseconds, for an entry that has lost its own
-- ARGV[5] set id     22 characters
-- ARGV[6] run_id     of this server; '': to be asked
-- ARGV[7] floor      the client's clock, microseconds since 1970
-- ARGV[8] metadata   the JSON behind {"s":<since>
-- ARGV[9] life       of the old owner's tombstone, milliseconds at least
-- Reply: {'revoked', token of up to 19 digits, remaining ms, the old holder's lock delay in ms}
--   {'again', token of 19 digits, the same two}  the answer to a repeat
--   {'repaired'}  to a repeat, but it is no vote
--   {'gone'}      something else stands, or nothing
--   {'cancelled'} {'no-token'}
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
local value, counter, marker = found[1], found[3], found[4]
local ttl, set_id, run_id = ARGV[4], ARGV[5], ARGV[6]
${GATE}
if found[2] then
  return {'cancelled'}
end
if not value then
  return {'gone'}
end
local left = redis.call('PTTL', KEYS[1])
local own = 'hf1:' .. ARGV[1] .. ':'
local owner = string.match(value, '^hf1:([%w_-]+):%d+:{')
local delay = owner and string.match(value, ',"d":(%d+)', 48) or '0'
if string.sub(value, 1, 27) == own then
  if string.find(value, '^{"s":%d+,"f":1,', 48) then
    return {'repaired'}
  end
  return {'again', string.sub(value, 28, 46), left, delay}
end
local revoked = ''
if #ARGV[2] == 40 then
  if redis.sha1hex(value) ~= ARGV[2] or left < 0 or owner == '----------------------' then
    return {'gone'}
  end
  delay = '0'
elseif owner ~= ARGV[2] or owner == '----------------------' then
  return {'gone'}
else
  local tombstone = KEYS[5] .. owner
  -- Under OOM Redis lets a script write whose first write was a DEL.
  redis.call('DEL', tombstone)
  redis.call('SET', tombstone, '', 'PX', math.max(2 * left, tonumber(ARGV[9])))
  revoked = ',"r":"' .. ARGV[3] .. '"'
  if delay ~= '0' then
    revoked = revoked .. ',"d":' .. delay
  end
end
local counter_key, proposed = KEYS[3], ARGV[7]
${DRAW}
value = own .. string.rep('0', 19 - #token) .. token .. ':{"s":' .. now .. revoked .. ARGV[8]
if left < 0 then
  left = tonumber(ttl)
  redis.call('SET', KEYS[1], value, 'PX', left)
else
  -- A plain SET would take the TTL away.
  redis.call('SET', KEYS[1], value, 'XX', 'KEEPTTL')
end
return {'revoked', token, left, delay}
`,
  { runIdAt: 5 },
)
