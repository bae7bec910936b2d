/** Lua that an owner frees its name with; on one server and on each of many it is the same. */

/** Frees the name if it is still this owner's. Under OOM too: Redis refuses no DEL there. */
export const RELEASE_LUA = /* lua */ `
-- KEYS[1] lock  string, the value of the grant; expires. Also the channel
-- KEYS[2] want  string, who waits; expires
-- ARGV[1] mark  'hf1:<owner>:'
-- Reply: 1 freed, 0 not this owner's
-- pcall: a key of another type is not this owner's. Another error is told: a right may be missing.
local value = redis.pcall('GET', KEYS[1])
if type(value) ~= 'string' or string.sub(value, 1, 27) ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value
  end
  return 0
end
if redis.call('DEL', KEYS[1], KEYS[2]) == 2 then
  -- Last, and its failure is nobody's: a user without rights on channels has released all the same.
  redis.pcall('PUBLISH', KEYS[1], '')
end
return 1
`

/** An early release: nobody holds the name, and it stays taken for the rest of a minimum hold. */
export const REST_LUA = /* lua */ `
-- KEYS[1] lock       string, the value of the grant; expires
-- KEYS[2] tombstone  string, of this owner; expires
-- ARGV[1] mark       'hf1:<owner>:'
-- ARGV[2] rest       milliseconds
-- Reply: 1 released, 0 not this owner's
-- Under OOM Redis lets a script write whose first write was a DEL, of a key that need not be there.
redis.call('DEL', KEYS[2])
local value = redis.call('MGET', KEYS[1])[1]
if not value or string.sub(value, 1, 27) ~= ARGV[1] then
  return 0
end
local resting = 'hf1:----------------------' .. string.sub(value, 27, 47) .. '{}'
redis.call('SET', KEYS[1], resting, 'PX', ARGV[2])
return 1
`
