import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { ACQUIRE_LUA } from './acquire.ts'

/**
 * Part of the scripts that ask whether this server may grant: leaves `state`, `inc`, `longest_seen`
 * and `run_id`. Takes the local `marker`, a key.
 *
 * The marker is '<state>:<inc>:<longest TTL>:<run_id>', state 'waiting' or 'voting'. A marker with
 * the run_id of another server is as good as none: this server has other data, or may have.
 */
const READ_MARKER = /* lua */ `
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local state, inc, longest_seen, seen = string.match(
  redis.call('GET', marker) or '', '^(%a+):([%w_-]+):(%d+):(%x+)$')
if seen ~= run_id then
  state = nil
end
`

/**
 * ACQUIRE, but nothing new is granted before somebody has waited for the end of all leases that this
 * server may have forgotten. A name that is taken is answered as ever: what survived excludes others.
 */
export const GATED_ACQUIRE: RedisScript = defineScript(
  'acquire',
  /* lua */ `
-- KEYS[5..] marker  the last key; string, NEVER expires
-- ARGV[4..] fresh   the last but one: 22 characters, for a marker of our own
--           longest the last: the longest TTL of anybody, milliseconds
-- Reply besides: {'waiting', the marker's inc, longest TTL of anybody in ms}
local marker = table.remove(KEYS)
local longest = table.remove(ARGV)
local fresh = table.remove(ARGV)
${READ_MARKER}
local is_known = state and tonumber(longest_seen) >= tonumber(longest)
if tonumber(longest_seen or 0) < tonumber(longest) then
  longest_seen = longest
end
if not state then
  state, inc = 'waiting', fresh
end
if not is_known then
  redis.call('SET', marker, table.concat({state, inc, longest_seen, run_id}, ':'))
end
if state ~= 'voting' and redis.call('EXISTS', KEYS[1]) == 0 then
  return {'waiting', inc, longest_seen}
end
${ACQUIRE_LUA}`,
)

/** Lets the server grant again, if the marker is still the one for which the caller has waited. */
export const ADMIT: RedisScript = defineScript(
  'admit',
  /* lua */ `
-- KEYS[1] marker   string, NEVER expires
-- ARGV[1] inc      of the marker that was waited for
-- ARGV[2] longest  the longest TTL that was waited for, milliseconds
-- Reply: 1 it may grant, 0 it is to be waited for again
local marker = KEYS[1]
${READ_MARKER}
if state == 'voting' then
  return 1
end
if state ~= 'waiting' or inc ~= ARGV[1] or longest_seen ~= ARGV[2] then
  return 0
end
redis.call('SET', marker, table.concat({'voting', inc, longest_seen, run_id}, ':'))
return 1
`,
)
