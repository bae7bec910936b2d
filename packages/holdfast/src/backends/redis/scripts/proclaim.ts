import { defineScript, type RedisScript } from '../../../clients/redis.ts'

/**
 * Replaces the holder's value. It is the last member of the JSON, and inside a JSON text the quote
 * after the comma would have a backslash before it, so it can be found without reading JSON, which
 * Lua would round the microseconds in.
 */
export const PROCLAIM: RedisScript = defineScript(
  'proclaim',
  /* lua */ `
-- KEYS[1] lock    string, the value of the grant; expires. Also the channel
-- ARGV[1] mark    'hf1:<owner>:'
-- ARGV[2] member  of the JSON, with the comma before it
-- ARGV[3] length  of the value at most, bytes
-- Reply: 'proclaimed', 'not-held' or 'too-long'
local value = redis.call('MGET', KEYS[1])[1]
if not value or string.sub(value, 1, 27) ~= ARGV[1] then
  return 'not-held'
end
local at = string.find(value, ',"v":', 48, true) or string.find(value, ',"V":', 48, true) or #value
local proclaimed = string.sub(value, 1, at - 1) .. ARGV[2] .. '}'
if #proclaimed > tonumber(ARGV[3]) then
  return 'too-long'
end
-- A plain SET would take the TTL away.
redis.call('SET', KEYS[1], proclaimed, 'XX', 'KEEPTTL')
-- For those who watch the holder rather than wait for the name: they leave no mark.
redis.pcall('PUBLISH', KEYS[1], '')
return 'proclaimed'
`,
)
