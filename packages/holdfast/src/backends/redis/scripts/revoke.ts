import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { NEXT_TOKEN } from './next-token.ts'

/**
 * Swaps the entry, if it is still the one seen, for a grant of the operator's, with what was left of
 * its life. Nobody is woken: the name is not free.
 *
 * The tombstone of the old owner is the one key that cannot be named beforehand, because nobody but
 * the store knows the owner; it begins as all of them do.
 */
export const REVOKE: RedisScript = defineScript(
  'revoke',
  /* lua */ `
-- KEYS[1] lock       string, the value of the grant; expires
-- KEYS[2] tombstone  string, stands if the operator's attempt was cancelled; expires
-- KEYS[3] counter    integer, the last token drawn; NEVER expires
-- KEYS[4] tombstones no key, but how their keys begin; the old owner is appended
-- ARGV[1] owner      22 characters, the operator's
-- ARGV[2] seen       19 digits: the token of the holder; or 40: the SHA-1 of a foreign value
-- ARGV[3] ttl        milliseconds, for an entry that has lost its own
-- ARGV[4] metadata   the JSON behind {"s":<since>
-- ARGV[5] life       of the old owner's tombstone, milliseconds at least
-- Reply: {'revoked', token of up to 19 digits, remaining ms, the old holder's lock delay in ms}
--   {'gone'}      it is no longer the one seen
--   {'cancelled'} {'no-token'}
local found = redis.call('MGET', KEYS[1], KEYS[2])
local value = found[1]
if found[2] then
  return {'cancelled'}
end
if not value then
  return {'gone'}
end
local left = redis.call('PTTL', KEYS[1])
local own = 'hf1:' .. ARGV[1] .. ':'
local owner, token_seen = string.match(value, '^hf1:([%w_-]+):(%d+):{')
local delay = owner and string.match(value, ',"d":(%d+)', 48) or '0'
if string.sub(value, 1, 27) == own then
  return {'revoked', token_seen, left, delay}
end
if owner == '----------------------' then
  return {'gone'}
end
local revoked = ''
if #ARGV[2] == 40 then
  if redis.sha1hex(value) ~= ARGV[2] or left < 0 then
    return {'gone'}
  end
  delay = '0'
elseif token_seen ~= ARGV[2] then
  return {'gone'}
else
  local tombstone = KEYS[4] .. owner
  -- Under OOM Redis lets a script write whose first write was a DEL.
  redis.call('DEL', tombstone)
  redis.call('SET', tombstone, '', 'PX', math.max(2 * left, tonumber(ARGV[5])))
  revoked = ',"r":"' .. ARGV[2] .. '"'
  if delay ~= '0' then
    revoked = revoked .. ',"d":' .. delay
  end
end
local counter = KEYS[3]
${NEXT_TOKEN}
value = own .. string.rep('0', 19 - #token) .. token .. ':{"s":' .. now .. revoked .. ARGV[4]
if left < 0 then
  left = tonumber(ARGV[3])
  redis.call('SET', KEYS[1], value, 'PX', left)
else
  -- A plain SET would take the TTL away.
  redis.call('SET', KEYS[1], value, 'XX', 'KEEPTTL')
end
return {'revoked', token, left, delay}
`,
)
