import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { GATE } from './gate.ts'

/**
 * Writes the entry of a lease, which a quorum of other nodes confirmed, on a node where it is missing.
 * It never grants: the token is the lease's own, and the entry says that it was put there ("f"), so
 * that a late repeat of the acquire is not told that it has a vote here.
 */
export const REPAIR: RedisScript = defineScript(
  'repair',
  /* lua */ `
-- KEYS[1] lock       string, the value of the grant; expires
-- KEYS[2] tombstone  string, stands if this owner was cancelled; expires. Ends with the owner
-- KEYS[3] counter    integer, the last token drawn; NEVER expires
-- KEYS[4] marker     string, whether this node votes; NEVER expires
-- ARGV[1] ttl        milliseconds
-- ARGV[2] set id     22 characters
-- ARGV[3] run_id     of this server; '': to be asked
-- ARGV[4] token      19 digits, of the lease
-- ARGV[5] metadata   the JSON behind {"s":<since>,"f":1
-- Reply: {'ok'} written
--   {'again'} this owner's entry stands, and stays as it is
--   {'held'} something else stands {'cancelled'}
local found = redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4])
local value, counter, marker = found[1], found[3], found[4]
local set_id, run_id, ttl = ARGV[2], ARGV[3], ARGV[1]
${GATE}
if found[2] then
  return {'cancelled'}
end
local own = 'hf1:' .. string.sub(KEYS[2], -22) .. ':'
if value then
  return {string.sub(value, 1, 27) == own and 'again' or 'held'}
end
local token = string.match(ARGV[4], '^0*(%d+)$')
-- Before the lock, and by length, then by bytes: '10' < '9' as text.
if #counter < #token or (#counter == #token and counter < token) then
  redis.call('SET', KEYS[3], token)
end
local time = redis.call('TIME')
local since = time[1] .. string.format('%06d', time[2])
local entry = own .. ARGV[4] .. ':{"s":' .. since .. ',"f":1' .. ARGV[5]
-- NX for a key of another type, for which MGET answers nil.
return {redis.call('SET', KEYS[1], entry, 'PX', ttl, 'NX') and 'ok' or 'held'}
`,
  { runIdAt: 2 },
)
