/**
 * Part of the scripts that vote: whether this node may, for this set of nodes.
 *
 * Takes `marker` and `counter`, what stands there (false: nothing), `set_id`, `run_id` ('': asked of
 * the server) and `ttl`, milliseconds that an entry is to live (nil: none is written).
 *
 * The marker has fields of fixed width, so that a node which may vote is told from all others by three
 * comparisons (marker.ts):
 *
 *     hfm1:<state>:<inc>:<set id>:<n>:<longest TTL>:<run_id>:<names, or where it went>
 *     1    6       8     31       54  57            66       107
 *
 * Another set comes first: what it does with its marker is nobody's here. Then another run_id: such a
 * server has lost its data, or may have. A marker closed in favour of this very set is as good as none.
 */
export const GATE = /* lua */ `
-- Of the gate: {'amnesia', why, marker or ''}, why: 'empty', 'restarted', 'waiting', 'no-counter'
--   {'wrong-set', marker}        of another set, closed, or nothing that a Redlock wrote
--   {'too-long', longest TTL}    this one is longer
if run_id == '' then
  -- A pattern would be tried at each of some hundred characters before it: a fifth of the script's time.
  local info = redis.call('INFO', 'server')
  local place = string.find(info, 'run_id:', 1, true)
  run_id = place and string.sub(info, place + 7, place + 46)
end
if not marker then
  return {'amnesia', 'empty', ''}
end
if string.sub(marker, 1, 7) ~= 'hfm1:v:' or string.sub(marker, 31, 52) ~= set_id
  or string.sub(marker, 66, 105) ~= run_id or not counter then
  local state = string.sub(marker, 1, 7)
  if state == 'hfm1:c:' and string.sub(marker, 107) == set_id then
    return {'amnesia', 'empty', marker}
  end
  if string.sub(marker, 31, 52) ~= set_id or (state ~= 'hfm1:v:' and state ~= 'hfm1:w:') then
    return {'wrong-set', marker}
  end
  if string.sub(marker, 66, 105) ~= run_id then
    return {'amnesia', 'restarted', marker}
  end
  return {'amnesia', state == 'hfm1:w:' and 'waiting' or 'no-counter', marker}
end
local longest = tonumber(string.sub(marker, 57, 64)) or 0
if ttl and tonumber(ttl) > longest then
  return {'too-long', longest}
end
`
