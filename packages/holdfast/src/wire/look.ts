/** Lua that looks: what people may see of a lock, and that somebody waits for it. */
import { DESCRIBE } from './describe.ts'

/** How long a mark stands: a contender that waits polls at least every 1.25 s, and so renews it. */
export const WANT_MS = 2000

/** Whether a name is taken; if so, says there that somebody waits. */
export const AWAIT_LUA: string = /* lua */ `
-- KEYS[1] lock  string, the value of a grant; expires
-- KEYS[2] want  string, who waits; expires
-- ARGV[1] mark  who waits
-- Reply: 1 taken, 0 free
if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
redis.pcall('SET', KEYS[2], ARGV[1], 'PX', ${WANT_MS})
return 1
`

/**
 * What stands at the key of a lock.
 *
 * Takes `shows_owner`: whether the owner of a lock of ours comes last; '' for what is none.
 */
export const INSPECTION: string = /* lua */ `
-- KEYS[1] lock  string, the value of a grant; expires
-- Reply: {kind, remaining ms, first, second}: see describe
--   {'free'}
--   {'not-a-lock', lock key, what it is}
${DESCRIBE}
local value = redis.call('MGET', KEYS[1])[1]
if not value then
  local kind = redis.call('TYPE', KEYS[1]).ok
  if kind == 'none' then
    return {'free'}
  end
  return {'not-a-lock', KEYS[1], 'it is a ' .. kind}
end
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  return {'not-a-lock', KEYS[1], 'it never expires'}
end
local kind, first, second = describe(value)
local owner = kind == 'lock' and string.sub(value, 5, 26) or ''
return {kind, left, first, second, shows_owner and owner or nil}
`

/**
 * One page of a listing. SCAN with a bound, because KEYS would hold up everybody else.
 *
 * Takes `shows_owner`: whether each lock's owner comes behind it; '' for what is not ours.
 */
export const LISTING: string = /* lua */ `
-- KEYS[1] start   no key, but how the keys to list begin. Absent in a cluster
-- ARGV[1] cursor  '0' to begin with
-- ARGV[2] count   how many keys of the server to walk over, about
-- ARGV[3] bytes   of the start at its end that belong to the lock names
-- ARGV[4] start   in place of KEYS[1], as the server gets keys
-- Reply: {next cursor, '0' at the end; then for each lock: name, kind, remaining ms, first, second}
${DESCRIBE}
local start = KEYS[1] or ARGV[4]
local pattern = string.gsub(start, '[%*%?%[%]\\\\]', '\\\\%0') .. '*'
local page = redis.call('SCAN', ARGV[1], 'MATCH', pattern, 'COUNT', ARGV[2], 'TYPE', 'string')
local before = #start - tonumber(ARGV[3])
local reply = {page[1]}
for _, key in ipairs(page[2]) do
  local name = string.sub(key, before + 1)
  if name ~= '' and not string.find(name, '#hf:', 1, true) then
    local found = redis.pcall('MGET', key)
    local why = found.err or ''
    if string.find(why, 'cluster is down', 1, true) or string.find(why, "can't run", 1, true) then
      -- Without this the listing would be empty, as if nobody held anything.
      return found
    end
    -- A key that this user may not read is none of its locks, nor is one whose slot has moved.
    local value = found[1]
    local left = value and redis.call('PTTL', key) or -1
    if left >= 0 then
      local kind, first, second = describe(value)
      if kind ~= 'rest' then
        for _, part in ipairs({name, kind, left, first, second}) do
          reply[#reply + 1] = part
        end
        if shows_owner then
          reply[#reply + 1] = kind == 'lock' and string.sub(value, 5, 26) or ''
        end
      end
    end
  end
end
return reply
`
