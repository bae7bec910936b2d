/**
 * Scripts that let a node vote, or keep it from voting. Each may be sent by anybody, again and again.
 *
 * All but STATE and COUNTERS change the marker only if it is still the very one that the caller saw
 * or waited for, and answer the one that stands then. GET, not MGET: a key of another type is told.
 */
import { defineScript, type RedisScript } from '../../../clients/redis.ts'
import { NOW } from '../../../wire/now.ts'

/** What a client has to know of a node before anything else. */
export const STATE: RedisScript = defineScript(
  'state',
  /* lua */ `
-- KEYS[1] marker  string, whether this node votes; NEVER expires
-- Reply: {marker or '', run_id, 'master' or 'slave', replicas that are connected, microseconds
--   since 1970}; role and replicas '' where this user may not ask
${NOW}
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local replication = redis.pcall('INFO', 'replication')
if type(replication) ~= 'string' then
  replication = ''
end
local role = string.match(replication, 'role:(%a+)') or ''
local replicas = string.match(replication, 'connected_slaves:(%d+)') or ''
return {redis.call('GET', KEYS[1]) or '', run_id, role, replicas, now}
`,
)

/** The counters of a node. */
export const COUNTERS: RedisScript = defineScript(
  'counters',
  /* lua */ `
-- KEYS[1..] counters  integers, the last token drawn; they NEVER expire
-- Reply: their texts, '' for one that is missing
local found = redis.call('MGET', unpack(KEYS))
for at = 1, #KEYS do
  found[at] = found[at] or ''
end
return found
`,
)

/**
 * Makes a node wait that has no marker, one of another server, or lost a counter. Its counters stay:
 * what it knows is at worst too little.
 *
 * The longest TTL never gets shorter by it: leases of that length may have had the vote that the node
 * has forgotten, and whoever comes later reads only this marker.
 */
export const QUARANTINE: RedisScript = defineScript(
  'quarantine',
  /* lua */ `
-- KEYS[1] marker     string, whether this node votes; NEVER expires
-- KEYS[2..] counters integers; to find one missing. Absent where a counter is not the reason
-- ARGV[1] inc        22 characters, fresh
-- ARGV[2] set id     22 characters
-- ARGV[3] n          how many nodes the set has
-- ARGV[4] longest    the longest TTL of anybody, milliseconds
-- ARGV[5] names      of the nodes, sorted, with commas between
-- ARGV[6] seen       the marker that the caller saw; '': none, or one closed in favour of this set
-- Reply: the marker that stands now
local marker = redis.call('GET', KEYS[1])
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local longest = tonumber(ARGV[4])
if marker then
  local state = string.sub(marker, 1, 7)
  if state == 'hfm1:c:' and string.sub(marker, 107) == ARGV[2] then
    if ARGV[6] ~= '' and ARGV[6] ~= marker then
      return marker
    end
  else
    local is_known = state == 'hfm1:v:' or state == 'hfm1:w:'
    if ARGV[6] ~= marker or not is_known or string.sub(marker, 31, 52) ~= ARGV[2] then
      return marker
    end
    local is_right = string.sub(marker, 66, 105) == run_id
    if is_right and state == 'hfm1:v:' and #KEYS > 1 then
      is_right = redis.call('EXISTS', unpack(KEYS, 2)) == #KEYS - 1
    end
    if is_right then
      return marker
    end
  end
  longest = math.max(longest, tonumber(string.sub(marker, 57, 64)) or 0)
elseif ARGV[6] ~= '' then
  return ''
end
local widths = string.format('%02d:%08d', ARGV[3], longest)
marker = table.concat({'hfm1:w', ARGV[1], ARGV[2], widths, run_id, ARGV[5]}, ':')
redis.call('SET', KEYS[1], marker)
return marker
`,
)

/**
 * Lets a node vote that the caller has waited for: with counters that no other node's is above, so
 * that it grants no token which it may have granted before it lost its data.
 */
export const ADMIT: RedisScript = defineScript(
  'admit',
  /* lua */ `
-- KEYS[1] marker     string, whether this node votes; NEVER expires
-- KEYS[2..] counters integers, the last token drawn; they NEVER expire
-- ARGV[1] inc        22 characters: of the marker that was waited for
-- ARGV[2] run_id     of this server; '': to be asked
-- ARGV[3..] floors   decimal texts, one for each counter, in their order
-- Reply: the marker that stands now, '' for none
local marker = redis.call('GET', KEYS[1])
if not marker then
  return ''
end
local run_id = ARGV[2]
if run_id == '' then
  run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
end
if string.sub(marker, 1, 30) ~= 'hfm1:w:' .. ARGV[1] .. ':' or string.sub(marker, 66, 105) ~= run_id then
  return marker
end
local counters = redis.call('MGET', unpack(KEYS, 2))
for at = 1, #KEYS - 1 do
  local counter, floor = counters[at] or '', ARGV[at + 2]
  -- By length, then by bytes: '10' < '9' as text.
  if #counter < #floor or (#counter == #floor and counter < floor) then
    redis.call('SET', KEYS[at + 1], floor)
  end
end
-- Last: a node that votes has all its counters.
marker = 'hfm1:v' .. string.sub(marker, 7)
redis.call('SET', KEYS[1], marker)
return marker
`,
)

/**
 * Lets a node go on voting after a restart without a wait, where its user says that it loses nothing
 * (`appendfsync always`). A replica, or who has one, may have other data than it had.
 */
export const ADOPT_RUN: RedisScript = defineScript(
  'adopt-run',
  /* lua */ `
-- KEYS[1] marker  string, whether this node votes; NEVER expires
-- ARGV[1] seen    the marker that the caller saw
-- Reply: the marker that stands now, '' for none
local marker = redis.call('GET', KEYS[1])
if marker ~= ARGV[1] or string.sub(marker, 1, 7) ~= 'hfm1:v:' then
  return marker or ''
end
local run_id = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local replication = redis.call('INFO', 'replication')
local is_alone = string.find(replication, 'role:master', 1, true)
  and string.find(replication, 'connected_slaves:0', 1, true)
if string.sub(marker, 66, 105) ~= run_id and is_alone then
  marker = string.sub(marker, 1, 65) .. run_id .. string.sub(marker, 106)
  redis.call('SET', KEYS[1], marker)
end
return marker
`,
)

/** Ends the voting of a node for its set, in favour of another one; for that one it is as empty. */
export const CLOSE: RedisScript = defineScript(
  'close',
  /* lua */ `
-- KEYS[1] marker  string, whether this node votes; NEVER expires
-- ARGV[1] seen    the marker that the caller saw
-- ARGV[2] to      22 characters: the id of the new set
-- Reply: the marker that stands now, '' for none
local marker = redis.call('GET', KEYS[1])
if marker ~= ARGV[1] or not string.find(marker, '^hfm1:[vwc]:') then
  return marker or ''
end
marker = 'hfm1:c' .. string.sub(marker, 7, 106) .. ARGV[2]
redis.call('SET', KEYS[1], marker)
return marker
`,
)
