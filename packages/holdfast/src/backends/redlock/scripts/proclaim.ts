import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { VALUE_BYTES_MAX } from '../../../wire/value.ts'

/**
 * Replaces the holder's value on this node, unless a later one stands: nodes get them in any order.
 *
 * The two members are the last of the JSON, and inside a JSON text the quote after the comma would
 * have a backslash before it, so they are found without reading JSON.
 */
export const PROCLAIM: RedisScript = defineScript(
  'proclaim',
  /* lua */ `
-- KEYS[1] lock    string, the value of the grant; expires. Also the channel
-- ARGV[1] mark    'hf1:<owner>:'
-- ARGV[2] p       decimal text without leading zeros, larger for each value of this owner
-- ARGV[3] member  of the JSON, with the comma before it
-- Reply: 'proclaimed' (also where this p stood already), 'not-held', 'too-long'
--   'older'         a larger p stands
local value = redis.call('MGET', KEYS[1])[1]
if not value or string.sub(value, 1, 27) ~= ARGV[1] then
  return 'not-held'
end
local last = string.match(value, ',"n":(%d+)', 48) or ''
-- By length, then by bytes: '10' < '9' as text.
if #last > #ARGV[2] or (#last == #ARGV[2] and last > ARGV[2]) then
  return 'older'
end
local at = string.find(value, ',"n":', 48, true) or string.find(value, ',"v":', 48, true)
  or string.find(value, ',"V":', 48, true) or #value
local proclaimed = string.sub(value, 1, at - 1) .. ',"n":' .. ARGV[2] .. ARGV[3] .. '}'
if #proclaimed > ${VALUE_BYTES_MAX} then
  return 'too-long'
end
-- A plain SET would take the TTL away.
redis.call('SET', KEYS[1], proclaimed, 'XX', 'KEEPTTL')
-- For those who watch the holder rather than wait for the name: they leave no mark.
redis.pcall('PUBLISH', KEYS[1], '')
return 'proclaimed'
`,
)
